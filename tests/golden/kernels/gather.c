/* expr: out[i,j] = x[select(y[i] < 0, y[i] + 5, y[i]),j]
 * schedule: lanes(output, 2048) */
static void gather(const float *restrict x, const int64_t *restrict y, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 3; i++) {
        for (ptrdiff_t j = 0; j < 4; j++) {
            out[i * 4 + j] = x[(int64_t)((uint64_t)j + (uint64_t)(int64_t)((uint64_t)(y[i] < 0 ?
                (int64_t)((uint64_t)y[i] + (uint64_t)5) : y[i]) * (uint64_t)4))];
        }
    }
}
