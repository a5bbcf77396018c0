/* expr: out[i] = max(k) x[i,k]; out[i,j] = exp(x[i,j] - y[i]); out[i] = sum(k) z[i,k]; out[i,j]
 *   = z[i,j] / w[i]
 * schedule: rows(1); parallel(0); lanes(reduction, 32) | lanes(output, 2048) | lanes(reduction,
 *   32) | lanes(output, 2048) */
static void rows_softmax(const float *restrict x, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 6; i++) {
        float row0;
        float row1[70] TASOR_ALIGNED;
        float row2;
        {
            float total;
            {
                float acc[32] TASOR_ALIGNED;
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
                for (ptrdiff_t k_i = 0; k_i < 6; k_i++) {
                    acc[k_i] = tasor_max_f32(acc[k_i], x[i * 70 + k_i + 64]);
                }
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 16; lane++) {
                    acc[lane] = tasor_max_f32(acc[lane], acc[lane + 16]);
                }
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 8; lane++) {
                    acc[lane] = tasor_max_f32(acc[lane], acc[lane + 8]);
                }
                for (ptrdiff_t lane = 0; lane < 4; lane++) {
                    acc[lane] = tasor_max_f32(acc[lane], acc[lane + 4]);
                }
                for (ptrdiff_t lane = 0; lane < 2; lane++) {
                    acc[lane] = tasor_max_f32(acc[lane], acc[lane + 2]);
                }
                for (ptrdiff_t lane = 0; lane < 1; lane++) {
                    acc[lane] = tasor_max_f32(acc[lane], acc[lane + 1]);
                }
                total = acc[0];
            }
            row0 = total;
        }
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 70; j++) {
            row1[j] = tasor_exp_f32(x[i * 70 + j] - row0);
        }
        {
            float total;
            {
                float acc[32] TASOR_ALIGNED;
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 32; lane++) {
                    acc[lane] = 0.0f;
                }
                for (ptrdiff_t k_o = 0; k_o < 2; k_o++) {
                    TASOR_SIMD
                    for (ptrdiff_t k_i = 0; k_i < 32; k_i++) {
                        acc[k_i] = acc[k_i] + row1[k_i + k_o * 32];
                    }
                }
                TASOR_SIMD
                for (ptrdiff_t k_i = 0; k_i < 6; k_i++) {
                    acc[k_i] = acc[k_i] + row1[k_i + 64];
                }
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 16; lane++) {
                    acc[lane] = acc[lane] + acc[lane + 16];
                }
                TASOR_SIMD
                for (ptrdiff_t lane = 0; lane < 8; lane++) {
                    acc[lane] = acc[lane] + acc[lane + 8];
                }
                for (ptrdiff_t lane = 0; lane < 4; lane++) {
                    acc[lane] = acc[lane] + acc[lane + 4];
                }
                for (ptrdiff_t lane = 0; lane < 2; lane++) {
                    acc[lane] = acc[lane] + acc[lane + 2];
                }
                for (ptrdiff_t lane = 0; lane < 1; lane++) {
                    acc[lane] = acc[lane] + acc[lane + 1];
                }
                total = acc[0];
            }
            row2 = total;
        }
        TASOR_SIMD
        for (ptrdiff_t j = 0; j < 70; j++) {
            out[i * 70 + j] = row1[j] / row2;
        }
    }
}
