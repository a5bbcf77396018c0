/* expr: out[i,j] = sum(k) x[i,k] * y[j,k]
 * schedule: register_tile(3 x 1*8); vectors(runtime); rows(broadcast in place); order(vector
 *   tiles, rows) */
static void register_tile_panel(const float *restrict x, const float *restrict y, float *restrict
    out, float *restrict panel_all)
{
    {
        float *const panel = panel_all;
        for (ptrdiff_t lane2 = 0; lane2 < 8; lane2++) {
            for (ptrdiff_t k2 = 0; k2 < 8; k2++) {
                panel[k2 * 8 + lane2] = y[k2 + lane2 * 8];
            }
        }
        for (ptrdiff_t i_o = 0; i_o < 2; i_o++) {
            __m256 acc_0_0;
            __m256 acc_1_0;
            __m256 acc_2_0;
            __m256 vector_0;
            __m256 element;
            acc_0_0 = _mm256_set1_ps(0.0f);
            acc_1_0 = _mm256_set1_ps(0.0f);
            acc_2_0 = _mm256_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 8; k++) {
                vector_0 = _mm256_loadu_ps(panel + k * 8);
                element = _mm256_set1_ps(x[i_o * 24 + k]);
                acc_0_0 = _mm256_fmadd_ps(element, vector_0, acc_0_0);
                element = _mm256_set1_ps(x[i_o * 24 + k + 8]);
                acc_1_0 = _mm256_fmadd_ps(element, vector_0, acc_1_0);
                element = _mm256_set1_ps(x[i_o * 24 + k + 16]);
                acc_2_0 = _mm256_fmadd_ps(element, vector_0, acc_2_0);
            }
            _mm256_storeu_ps(out + i_o * 36, acc_0_0);
            _mm256_storeu_ps(out + i_o * 36 + 12, acc_1_0);
            _mm256_storeu_ps(out + i_o * 36 + 24, acc_2_0);
        }
    }
    {
        float *const panel = panel_all;
        for (ptrdiff_t lane4 = 0; lane4 < 4; lane4++) {
            for (ptrdiff_t k4 = 0; k4 < 8; k4++) {
                panel[k4 * 8 + lane4] = y[k4 + lane4 * 8 + 64];
            }
        }
        for (ptrdiff_t k5 = 0; k5 < 8; k5++) {
            for (ptrdiff_t lane5 = 0; lane5 < 4; lane5++) {
                panel[k5 * 8 + lane5 + 4] = 0.0f;
            }
        }
        for (ptrdiff_t i_o2 = 0; i_o2 < 2; i_o2++) {
            __m256 acc_0_02;
            __m256 acc_1_02;
            __m256 acc_2_02;
            __m256 vector_02;
            __m256 element2;
            acc_0_02 = _mm256_set1_ps(0.0f);
            acc_1_02 = _mm256_set1_ps(0.0f);
            acc_2_02 = _mm256_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k3 = 0; k3 < 8; k3++) {
                vector_02 = _mm256_loadu_ps(panel + k3 * 8);
                element2 = _mm256_set1_ps(x[i_o2 * 24 + k3]);
                acc_0_02 = _mm256_fmadd_ps(element2, vector_02, acc_0_02);
                element2 = _mm256_set1_ps(x[i_o2 * 24 + k3 + 8]);
                acc_1_02 = _mm256_fmadd_ps(element2, vector_02, acc_1_02);
                element2 = _mm256_set1_ps(x[i_o2 * 24 + k3 + 16]);
                acc_2_02 = _mm256_fmadd_ps(element2, vector_02, acc_2_02);
            }
            {
                float tile[24];
                _mm256_storeu_ps(tile, acc_0_02);
                _mm256_storeu_ps(tile + 8, acc_1_02);
                _mm256_storeu_ps(tile + 16, acc_2_02);
                for (ptrdiff_t i2 = 0; i2 < 3; i2++) {
                    for (ptrdiff_t lane3 = 0; lane3 < 4; lane3++) {
                        out[i_o2 * 36 + i2 * 12 + lane3 + 8] = tile[i2 * 8 + lane3];
                    }
                }
            }
        }
    }
}
