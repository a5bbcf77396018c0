/* expr: out[i] = max(k) x[i,k]; out[i,j] = exp(x[i,j] - y[i]); out[i] = sum(k) z[i,k]; out[i,j]
 *   = z[i,j] / w[i]
 * schedule: rows(1); parallel(0); lanes(reduction, 32); softmax | lanes(output, 2048); softmax &
 *   lanes(reduction, 32); softmax; ahead | lanes(output, 2048); reciprocals; softmax */
static void rows_softmax_avx2(const float *restrict x, float *restrict out)
{
    for (ptrdiff_t i = 0; i < 6; i++) {
        float row0;
        float row1[70] TASOR_ALIGNED;
        float row2;
        {
            float total;
            {
                float acc[32] TASOR_ALIGNED;
                for (ptrdiff_t lane = 0; lane < 32; lane += 8) {
                    const __m256 acc_lanes = _mm256_set1_ps(-INFINITY);
                    _mm256_storeu_ps(acc + lane, acc_lanes);
                }
                for (ptrdiff_t k_o = 0; k_o < 2; k_o++) {
                    for (ptrdiff_t k_i = 0; k_i < 32; k_i += 8) {
                        const __m256 acc_lanes = _mm256_max_ps(_mm256_loadu_ps(x + i * 70 + k_i +
                            k_o * 32), _mm256_loadu_ps(acc + k_i));
                        _mm256_storeu_ps(acc + k_i, acc_lanes);
                    }
                }
                {
                    const __m256 acc_lanes = _mm256_max_ps(_mm256_maskload_ps(x + i * 70 + 0 + 64,
                        _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0)), _mm256_loadu_ps(acc));
                    _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0x3F));
                }
                total = tasor_max_of_32_lanes_f32x8(acc);
            }
            row0 = total;
        }
        {
            float total;
            {
                float acc[32] TASOR_ALIGNED;
                for (ptrdiff_t lane = 0; lane < 32; lane += 8) {
                    const __m256 acc_lanes = _mm256_set1_ps(0.0f);
                    _mm256_storeu_ps(acc + lane, acc_lanes);
                }
                for (ptrdiff_t k_o = 0; k_o < 2; k_o++) {
                    TASOR_PREFETCH(x, i * 70 + k_o * 32 + 70);
                    TASOR_PREFETCH(x, i * 70 + k_o * 32 + 86);
                    TASOR_PREFETCH(out, i * 70 + k_o * 32);
                    TASOR_PREFETCH(out, i * 70 + k_o * 32 + 16);
                    for (ptrdiff_t k_i = 0; k_i < 32; k_i += 8) {
                        const __m256 row1_lanes =
                            tasor_exp_nonpositive_f32x8(_mm256_sub_ps(_mm256_loadu_ps(x + i * 70 +
                            k_i + k_o * 32), _mm256_set1_ps(row0)));
                        _mm256_storeu_ps(row1 + k_i + k_o * 32, row1_lanes);
                        const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc + k_i),
                            row1_lanes);
                        _mm256_storeu_ps(acc + k_i, acc_lanes);
                    }
                }
                TASOR_PREFETCH(x, i * 70 + 134);
                TASOR_PREFETCH(out, i * 70 + 64);
                {
                    const __m256 row1_lanes =
                        tasor_exp_nonpositive_f32x8(_mm256_sub_ps(_mm256_maskload_ps(x + i * 70 + 0
                        + 64, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0)),
                        _mm256_set1_ps(row0)));
                    tasor_store_most_f32x8(row1 + 0 + 64, row1_lanes, 6);
                    const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc), row1_lanes);
                    _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0x3F));
                }
                total = tasor_sum_of_32_lanes_f32x8(acc);
            }
            row2 = total;
        }
        {
            float reciprocal;
            float rest;
            reciprocal = 1.0f / row2;
            rest = tasor_reciprocal_rest_f32(row2, reciprocal);
            for (ptrdiff_t j = 0; j < 64; j += 8) {
                const __m256 out_lanes = tasor_rescaled_f32x8(_mm256_loadu_ps(row1 + j),
                    _mm256_set1_ps(reciprocal), _mm256_set1_ps(rest));
                _mm256_storeu_ps(out + i * 70 + j, out_lanes);
            }
            {
                const __m256 out_lanes = tasor_rescaled_f32x8(_mm256_maskload_ps(row1 + 64,
                    _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0)), _mm256_set1_ps(reciprocal),
                    _mm256_set1_ps(rest));
                tasor_store_most_f32x8(out + i * 70 + 64, out_lanes, 6);
            }
        }
    }
}
