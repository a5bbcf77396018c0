/* expr: out[i] = x[i] * y[i] + x[i]
 * schedule: lanes(output, 2048) */
static void halves(const uint16_t *restrict x, const uint16_t *restrict y, uint16_t *restrict out)
{
    TASOR_SIMD
    for (ptrdiff_t i = 0; i < 7; i++) {
        const float value_1 = tasor_f32_from_bf16(x[i]);
        out[i] = tasor_bf16_from_f32(value_1 * tasor_f32_from_bf16(y[i]) + value_1);
    }
}
