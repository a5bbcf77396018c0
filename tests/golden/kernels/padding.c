/* expr: out[i] = select(2 <= i && i < 6, x[i - 2], 0.0)
 * schedule: lanes(output, 2048) */
static void padding(const float *restrict x, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 2; i++) {
        out[i] = 0.0f;
    }
    for (ptrdiff_t i = 0; i < 4; i++) {
        out[i + 2] = x[i];
    }
    for (ptrdiff_t i = 0; i < 2; i++) {
        out[i + 6] = 0.0f;
    }
}
