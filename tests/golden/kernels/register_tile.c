/* expr: out[i,j] = sum(k) x[i,k] * y[k,j]; out[i,j] = max(w[i,j] + z[j], 0.0)
 * schedule: register_tile(3 x 2*16); vectors(direct); rows(broadcast in place); order(rows,
 *   vector tiles) */
static void register_tile(const float *restrict x, const float *restrict y, const float *restrict z,
    float *restrict out)
{
    for (ptrdiff_t i_o = 0; i_o < 2; i_o++) {
        {
            __m512 acc_0_0;
            __m512 acc_0_1;
            __m512 acc_1_0;
            __m512 acc_1_1;
            __m512 acc_2_0;
            __m512 acc_2_1;
            __m512 vector_0;
            __m512 vector_1;
            __m512 element;
            acc_0_0 = _mm512_set1_ps(0.0f);
            acc_0_1 = _mm512_set1_ps(0.0f);
            acc_1_0 = _mm512_set1_ps(0.0f);
            acc_1_1 = _mm512_set1_ps(0.0f);
            acc_2_0 = _mm512_set1_ps(0.0f);
            acc_2_1 = _mm512_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 8; k++) {
                vector_0 = _mm512_loadu_ps(y + k * 40);
                TASOR_KEEP(vector_0);
                vector_1 = _mm512_loadu_ps(y + k * 40 + 16);
                TASOR_KEEP(vector_1);
                element = _mm512_set1_ps(x[i_o * 24 + k]);
                acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
                acc_0_1 = _mm512_fmadd_ps(element, vector_1, acc_0_1);
                element = _mm512_set1_ps(x[i_o * 24 + k + 8]);
                acc_1_0 = _mm512_fmadd_ps(element, vector_0, acc_1_0);
                acc_1_1 = _mm512_fmadd_ps(element, vector_1, acc_1_1);
                element = _mm512_set1_ps(x[i_o * 24 + k + 16]);
                acc_2_0 = _mm512_fmadd_ps(element, vector_0, acc_2_0);
                acc_2_1 = _mm512_fmadd_ps(element, vector_1, acc_2_1);
            }
            {
                float tile[96] TASOR_ALIGNED;
                _mm512_storeu_ps(tile, acc_0_0);
                _mm512_storeu_ps(tile + 16, acc_0_1);
                _mm512_storeu_ps(tile + 32, acc_1_0);
                _mm512_storeu_ps(tile + 48, acc_1_1);
                _mm512_storeu_ps(tile + 64, acc_2_0);
                _mm512_storeu_ps(tile + 80, acc_2_1);
                for (ptrdiff_t i = 0; i < 3; i++) {
                    for (ptrdiff_t lane = 0; lane < 32; lane += 16) {
                        const __m512 out_lanes = tasor_max_f32x16(_mm512_add_ps(_mm512_loadu_ps(tile
                            + i * 32 + lane), _mm512_loadu_ps(z + lane)), _mm512_set1_ps(0.0f));
                        _mm512_storeu_ps(out + i_o * 120 + i * 40 + lane, out_lanes);
                    }
                }
            }
        }
        {
            __m512 acc_0_0;
            __m512 acc_1_0;
            __m512 acc_2_0;
            __m512 vector_0;
            __m512 element;
            acc_0_0 = _mm512_set1_ps(0.0f);
            acc_1_0 = _mm512_set1_ps(0.0f);
            acc_2_0 = _mm512_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 8; k++) {
                vector_0 = _mm512_maskz_loadu_ps((__mmask16)0xFF, y + k * 40 + 32);
                TASOR_KEEP(vector_0);
                element = _mm512_set1_ps(x[i_o * 24 + k]);
                acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
                element = _mm512_set1_ps(x[i_o * 24 + k + 8]);
                acc_1_0 = _mm512_fmadd_ps(element, vector_0, acc_1_0);
                element = _mm512_set1_ps(x[i_o * 24 + k + 16]);
                acc_2_0 = _mm512_fmadd_ps(element, vector_0, acc_2_0);
            }
            {
                float tile[48] TASOR_ALIGNED;
                _mm512_storeu_ps(tile, acc_0_0);
                _mm512_storeu_ps(tile + 16, acc_1_0);
                _mm512_storeu_ps(tile + 32, acc_2_0);
                for (ptrdiff_t i = 0; i < 3; i++) {
                    TASOR_SIMD
                    for (ptrdiff_t lane = 0; lane < 8; lane++) {
                        out[i_o * 120 + i * 40 + lane + 32] = tasor_max_f32(tile[i * 16 + lane] +
                            z[lane + 32], 0.0f);
                    }
                }
            }
        }
    }
}
