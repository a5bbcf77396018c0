/* expr: out[i] = max(k) x[i,k]; out[i,j] = exp(x[i,j] - y[i]); out[i] = sum(k) z[i,k]; out[i,j]
 *   = z[i,j] / w[i]
 * schedule: rows(1); parallel(1); lanes(output, 8) | lanes(output, 8) | lanes(output, 8) |
 *   lanes(output, 8) */
static void parallel_rows(const float *restrict x, float *restrict out, float *restrict row1_all)
{
    TASOR_TEAM_FOR(i, 6) {
        float row0;
        float *const row1 = row1_all + (size_t)TASOR_THREAD * 160;
        float row2;
        {
            float total;
            total = -INFINITY;
            for (ptrdiff_t k = 0; k < 70; k++) {
                total = tasor_max_f32(total, x[i * 70 + k]);
            }
            row0 = total;
        }
        for (ptrdiff_t j_o = 0; j_o < 8; j_o++) {
            TASOR_SIMD
            for (ptrdiff_t j_i = 0; j_i < 8; j_i++) {
                row1[j_i + j_o * 8] = tasor_exp_f32(x[i * 70 + j_i + j_o * 8] - row0);
            }
        }
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 6; j++) {
            row1[j + 64] = tasor_exp_f32(x[i * 70 + j + 64] - row0);
        }
        {
            float total;
            float total2;
            float total3;
            total = 0.0f;
            for (ptrdiff_t k_o = 0; k_o < 2; k_o++) {
                total2 = 0.0f;
                for (ptrdiff_t k_i = 0; k_i < 24; k_i++) {
                    total2 = total2 + row1[k_o * 24 + k_i];
                }
                total = total + total2;
            }
            total3 = 0.0f;
            for (ptrdiff_t k_i = 0; k_i < 22; k_i++) {
                total3 = total3 + row1[k_i + 48];
            }
            row2 = total + total3;
        }
        for (ptrdiff_t j_o = 0; j_o < 8; j_o++) {
            TASOR_SIMD
            for (ptrdiff_t j_i = 0; j_i < 8; j_i++) {
                out[i * 70 + j_i + j_o * 8] = row1[j_i + j_o * 8] / row2;
            }
        }
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 6; j++) {
            out[i * 70 + j + 64] = row1[j + 64] / row2;
        }
    }
}
