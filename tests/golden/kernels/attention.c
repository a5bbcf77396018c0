/* expr: out[i,j,l] = sum(k) x[j,i,k] * y[l,i,k]; out[i,j,l] = a[i,j,l] / 4.0 + w[0,j,l];
 *   out[i,j,l] = max(k) b[i,j,k]; out[i,j,l] = exp(b[i,j,l] - c[i,j,0]); out[i,j,l] = sum(k)
 *   d[i,j,k]; out[i,j,l] = d[i,j,l] / e[i,j,0]; out[i,j,l] = sum(k) f[i,j,k] * z[k,i,l];
 *   out[i,j,l] = g[j,i,l]
 * schedule: attention_tile(2 rows, 48 apart; parts(1)); scores(register_tile(2 x 2*16);
 *   vectors(runtime); rows(broadcast in place); order(vector tiles, rows)); rows(2);
 *   parallel(0); lanes(output, 2048) | lanes(reduction, 16); softmax | lanes(output, 2048);
 *   softmax & lanes(reduction, 16); softmax | lanes(output, 2048); softmax; softmax held;
 *   weighted(register_tile(2 x 1*16); vectors(runtime); rows(broadcast in place); order(vector
 *   tiles, rows)) */
static void attention(const float *restrict x, const float *restrict y, const float *restrict z,
    const float *restrict w, float *restrict out, float *restrict scores_all, float *restrict
    keys_all, float *restrict values_all)
{
    for (ptrdiff_t i = 0; i < 2; i++) {
        float *const scores = scores_all;
        float *const keys = keys_all;
        float *const values = values_all;
        for (ptrdiff_t lane_o = 0; lane_o < 2; lane_o++) {
            tasor_transpose_whole_16x16_f32(y + i * 16 + lane_o * 512, 32, keys + lane_o * 16, 32);
        }
        tasor_transpose_16x16_f32(y + i * 16 + 1024, 32, 8, keys + 512, 32, 16);
        for (ptrdiff_t k = 0; k < 16; k++) {
            TASOR_SIMD
            for (ptrdiff_t lane = 0; lane < 24; lane++) {
                keys[k * 32 + lane + 520] = 0.0f;
            }
        }
        for (ptrdiff_t k = 0; k < 40; k++) {
            for (ptrdiff_t lane = 0; lane < 16; lane += 16) {
                const __m512 values_lanes = _mm512_loadu_ps(z + i * 16 + k * 32 + lane);
                _mm512_storeu_ps(values + k * 16 + lane, values_lanes);
            }
        }
        for (ptrdiff_t j_o = 0; j_o < 2; j_o++) {
            {
                __m512 acc_0_0;
                __m512 acc_0_1;
                __m512 acc_1_0;
                __m512 acc_1_1;
                __m512 vector_0;
                __m512 vector_1;
                __m512 element;
                acc_0_0 = _mm512_set1_ps(0.0f);
                acc_0_1 = _mm512_set1_ps(0.0f);
                acc_1_0 = _mm512_set1_ps(0.0f);
                acc_1_1 = _mm512_set1_ps(0.0f);
                TASOR_NO_UNROLL
                for (ptrdiff_t k = 0; k < 16; k++) {
                    vector_0 = _mm512_loadu_ps(keys + k * 32);
                    TASOR_KEEP(vector_0);
                    vector_1 = _mm512_loadu_ps(keys + k * 32 + 16);
                    TASOR_KEEP(vector_1);
                    element = _mm512_set1_ps(x[i * 16 + j_o * 64 + k]);
                    acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
                    acc_0_1 = _mm512_fmadd_ps(element, vector_1, acc_0_1);
                    element = _mm512_set1_ps(x[i * 16 + j_o * 64 + k + 32]);
                    acc_1_0 = _mm512_fmadd_ps(element, vector_0, acc_1_0);
                    acc_1_1 = _mm512_fmadd_ps(element, vector_1, acc_1_1);
                }
                _mm512_storeu_ps(scores, acc_0_0);
                _mm512_storeu_ps(scores + 16, acc_0_1);
                _mm512_storeu_ps(scores + 48, acc_1_0);
                _mm512_storeu_ps(scores + 64, acc_1_1);
            }
            {
                __m512 acc_0_0;
                __m512 acc_1_0;
                __m512 vector_0;
                __m512 element;
                acc_0_0 = _mm512_set1_ps(0.0f);
                acc_1_0 = _mm512_set1_ps(0.0f);
                TASOR_NO_UNROLL
                for (ptrdiff_t k = 0; k < 16; k++) {
                    vector_0 = _mm512_loadu_ps(keys + k * 32 + 512);
                    TASOR_KEEP(vector_0);
                    element = _mm512_set1_ps(x[i * 16 + j_o * 64 + k]);
                    acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
                    element = _mm512_set1_ps(x[i * 16 + j_o * 64 + k + 32]);
                    acc_1_0 = _mm512_fmadd_ps(element, vector_0, acc_1_0);
                }
                {
                    float tile[32] TASOR_ALIGNED;
                    _mm512_storeu_ps(tile, acc_0_0);
                    _mm512_storeu_ps(tile + 16, acc_1_0);
                    for (ptrdiff_t i2 = 0; i2 < 2; i2++) {
                        TASOR_SIMD
                        for (ptrdiff_t lane = 0; lane < 8; lane++) {
                            scores[i2 * 48 + lane + 32] = tile[i2 * 16 + lane];
                        }
                    }
                }
            }
            for (ptrdiff_t j = 0; j < 2; j++) {
                TASOR_SIMD
                for (ptrdiff_t l = 0; l < 40; l++) {
                    scores[j * 48 + l] = scores[j * 48 + l] / 4.0f + w[j * 40 + j_o * 80 + l];
                }
            }
            tasor_softmax_rows_3_f32x16(scores, 48, 2, scores, 48, 8);
            {
                __m512 acc_0_0;
                __m512 acc_1_0;
                __m512 vector_0;
                __m512 element;
                acc_0_0 = _mm512_set1_ps(0.0f);
                acc_1_0 = _mm512_set1_ps(0.0f);
                TASOR_NO_UNROLL
                for (ptrdiff_t k = 0; k < 40; k++) {
                    vector_0 = _mm512_loadu_ps(values + k * 16);
                    TASOR_KEEP(vector_0);
                    element = _mm512_set1_ps(scores[k]);
                    acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
                    element = _mm512_set1_ps(scores[k + 48]);
                    acc_1_0 = _mm512_fmadd_ps(element, vector_0, acc_1_0);
                }
                _mm512_storeu_ps(out + i * 16 + j_o * 64, acc_0_0);
                _mm512_storeu_ps(out + i * 16 + j_o * 64 + 32, acc_1_0);
            }
        }
        {
            __m512 acc_0_0;
            __m512 acc_0_1;
            __m512 vector;
            __m512 element_0;
            acc_0_0 = _mm512_set1_ps(0.0f);
            acc_0_1 = _mm512_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 16; k++) {
                element_0 = _mm512_set1_ps(x[i * 16 + k + 128]);
                vector = _mm512_loadu_ps(keys + k * 32);
                acc_0_0 = _mm512_fmadd_ps(element_0, vector, acc_0_0);
                vector = _mm512_loadu_ps(keys + k * 32 + 16);
                acc_0_1 = _mm512_fmadd_ps(element_0, vector, acc_0_1);
            }
            _mm512_storeu_ps(scores, acc_0_0);
            _mm512_storeu_ps(scores + 16, acc_0_1);
        }
        {
            __m512 acc_0_0;
            __m512 vector_0;
            __m512 element;
            acc_0_0 = _mm512_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 16; k++) {
                vector_0 = _mm512_loadu_ps(keys + k * 32 + 512);
                element = _mm512_set1_ps(x[i * 16 + k + 128]);
                acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
            }
            {
                float tile[16] TASOR_ALIGNED;
                _mm512_storeu_ps(tile, acc_0_0);
                for (ptrdiff_t i2 = 0; i2 < 1; i2++) {
                    TASOR_SIMD
                    for (ptrdiff_t lane = 0; lane < 8; lane++) {
                        scores[lane + 32] = tile[lane];
                    }
                }
            }
        }
        for (ptrdiff_t j = 0; j < 1; j++) {
            TASOR_SIMD
            for (ptrdiff_t l = 0; l < 40; l++) {
                scores[l] = scores[l] / 4.0f + w[l + 160];
            }
        }
        tasor_softmax_rows_3_f32x16(scores, 0, 1, scores, 0, 8);
        {
            __m512 acc_0_0;
            __m512 vector_0;
            __m512 element;
            acc_0_0 = _mm512_set1_ps(0.0f);
            TASOR_NO_UNROLL
            for (ptrdiff_t k = 0; k < 40; k++) {
                vector_0 = _mm512_loadu_ps(values + k * 16);
                element = _mm512_set1_ps(scores[k]);
                acc_0_0 = _mm512_fmadd_ps(element, vector_0, acc_0_0);
            }
            _mm512_storeu_ps(out + i * 16 + 128, acc_0_0);
        }
    }
}
