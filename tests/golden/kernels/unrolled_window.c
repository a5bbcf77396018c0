/* expr: out[i] = max(k) x[i + k]
 * schedule: lanes(output, 2048); unroll(32) */
static void unrolled_window(const float *restrict x, float *restrict out)
{
    TASOR_SIMD
    for (ptrdiff_t i = 0; i < 8; i++) {
        out[i] = tasor_max_f32(tasor_max_f32(x[i], x[i + 1]), x[i + 2]);
    }
}
