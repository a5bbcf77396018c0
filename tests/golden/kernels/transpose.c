/* expr: out[i,j] = x[j,i]
 * schedule: lanes(output, 2048) */
static void transpose(const float *restrict x, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 3; i++) {
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 5; j++) {
            out[i * 5 + j] = x[i + j * 3];
        }
    }
}
