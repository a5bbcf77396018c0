/* expr: out[i,j] = max(x[i,j] + y[i,j] * 0.5, 0.0)
 * schedule: lanes(output, 2048) */
static void elementwise(const float *restrict x, const float *restrict y, float *restrict out)
{
    TASOR_SIMD
    for (ptrdiff_t i_j = 0; i_j < 15; i_j++) {
        out[i_j] = tasor_max_f32(x[i_j] + y[i_j] * 0.5f, 0.0f);
    }
}
