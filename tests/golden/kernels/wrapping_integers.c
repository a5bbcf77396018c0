/* expr: out[i] = x[i] * y[i] - x[i]
 * schedule: lanes(output, 2048) */
static void wrapping_integers(const int8_t *restrict x, const int8_t *restrict y, int8_t *restrict
    out)
{
    TASOR_SIMD
    for (ptrdiff_t i = 0; i < 7; i++) {
        const int8_t element_1 = x[i];
        out[i] = (int8_t)((int8_t)((uint32_t)(int8_t)((uint32_t)element_1 * (uint32_t)y[i]) -
            (uint32_t)element_1));
    }
}
