/* expr: out[i] = exp(x[i]) * exp(x[i]) + exp(x[i])
 * schedule: lanes(output, 2048) */
static void shared_terms(const float *restrict x, float *restrict out)
{
    TASOR_SIMD
    for (ptrdiff_t i = 0; i < 9; i++) {
        const float exp_1 = tasor_exp_f32(x[i]);
        out[i] = exp_1 * exp_1 + exp_1;
    }
}
