/* expr: out[i] = max(k) x[i,k]; out[i,j] = exp(x[i,j] - y[i]); out[i] = sum(k) z[i,k]; out[i,j]
 *   = z[i,j] / w[i]
 * schedule: rows(1); parallel(0); lanes(reduction, 32) | lanes(output, 2048) | lanes(reduction,
 *   32) | lanes(output, 2048) */
static void rows_softmax(const float *restrict x, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 6; i++) {
        float row0;
        float row1[70];
        float row2;
        {
            float total;
            {
                float acc[32];
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 32; lane++) {
                    acc[lane] = -INFINITY;
                }
                for (ptrdiff_t k_o = 0; k_o < 2; k_o++) {
                    TASOR_SIMD
                    for (ptrdiff_t k_i = 0; k_i < 32; k_i++) {
                        acc[k_i] = tasor_max_f32(acc[k_i], x[i * 70 + k_i + k_o * 32]);
                    }
                }
                TASOR_SIMD
                for (ptrdiff_t k_i2 = 0; k_i2 < 6; k_i2++) {
                    acc[k_i2] = tasor_max_f32(acc[k_i2], x[i * 70 + k_i2 + 64]);
                }
                total = -INFINITY;
                for (ptrdiff_t lane2 = 0; lane2 < 32; lane2++) {
                    total = tasor_max_f32(total, acc[lane2]);
                }
            }
            row0 = total;
        }
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 70; j++) {
            row1[j] = tasor_exp_f32(x[i * 70 + j] - row0);
        }
        {
            float total2;
            {
                float acc2[32];
                TASOR_SIMD
                for (ptrdiff_t lane3 = 0; lane3 < 32; lane3++) {
                    acc2[lane3] = 0.0f;
                }
                for (ptrdiff_t k_o2 = 0; k_o2 < 2; k_o2++) {
                    TASOR_SIMD
                    for (ptrdiff_t k_i3 = 0; k_i3 < 32; k_i3++) {
                        acc2[k_i3] = acc2[k_i3] + row1[k_i3 + k_o2 * 32];
                    }
                }
                TASOR_SIMD
                for (ptrdiff_t k_i4 = 0; k_i4 < 6; k_i4++) {
                    acc2[k_i4] = acc2[k_i4] + row1[k_i4 + 64];
                }
                total2 = 0.0f;
                for (ptrdiff_t lane4 = 0; lane4 < 32; lane4++) {
                    total2 = total2 + acc2[lane4];
                }
            }
            row2 = total2;
        }
        TASOR_SIMD
        for (ptrdiff_t j2 = 0; j2 < 70; j2++) {
            out[i * 70 + j2] = row1[j2] / row2;
        }
    }
}
