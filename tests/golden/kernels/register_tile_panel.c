/* expr: out[i,j] = sum(k) x[i,k] * y[j,k]
 * schedule: register_tile(3 x 1*8); vectors(runtime); rows(broadcast in place); order(vector
 *   tiles, rows) */
static void register_tile_panel(const float *restrict x, const float *restrict y, float *restrict
    out, float *restrict panel_all)
{
    {
        float *const panel = panel_all;
        tasor_transpose_whole_8x8_f32(y, 8, panel, 8);
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
                TASOR_KEEP(vector_0);
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
        tasor_transpose_4x8_f32(y + 64, 8, 4, panel, 8, 8);
        for (ptrdiff_t k = 0; k < 8; k++) {
            for (ptrdiff_t lane = 0; lane < 4; lane++) {
                panel[k * 8 + lane + 4] = 0.0f;
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
                TASOR_KEEP(vector_0);
                element = _mm256_set1_ps(x[i_o * 24 + k]);
                acc_0_0 = _mm256_fmadd_ps(element, vector_0, acc_0_0);
                element = _mm256_set1_ps(x[i_o * 24 + k + 8]);
                acc_1_0 = _mm256_fmadd_ps(element, vector_0, acc_1_0);
                element = _mm256_set1_ps(x[i_o * 24 + k + 16]);
                acc_2_0 = _mm256_fmadd_ps(element, vector_0, acc_2_0);
            }
            {
                float tile[24] TASOR_ALIGNED;
                _mm256_storeu_ps(tile, acc_0_0);
                _mm256_storeu_ps(tile + 8, acc_1_0);
                _mm256_storeu_ps(tile + 16, acc_2_0);
                for (ptrdiff_t i = 0; i < 3; i++) {
                    for (ptrdiff_t lane = 0; lane < 4; lane++) {
                        out[i_o * 36 + i * 12 + lane + 8] = tile[i * 8 + lane];
                    }
                }
            }
        }
    }
}
