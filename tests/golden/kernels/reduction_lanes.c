/* expr: out[i] = sum(k) x[i,k]
 * schedule: lanes(reduction, 32); parallel(1) */
static void reduction_lanes(const float *restrict x, float *restrict out)
{
    TASOR_TEAM_FOR(i, 3) {
        float total;
        {
            float acc[32] TASOR_ALIGNED;
            for (ptrdiff_t lane = 0; lane < 32; lane += 8) {
                const __m256 acc_lanes = _mm256_set1_ps(0.0f);
                _mm256_storeu_ps(acc + lane, acc_lanes);
            }
            for (ptrdiff_t k_o = 0; k_o < 3; k_o++) {
                for (ptrdiff_t k_i = 0; k_i < 32; k_i += 8) {
                    const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc + k_i),
                        _mm256_loadu_ps(x + i * 100 + k_i + k_o * 32));
                    _mm256_storeu_ps(acc + k_i, acc_lanes);
                }
            }
            {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_maskload_ps(x +
                    i * 100 + 0 + 96, _mm256_setr_epi32(-1, -1, -1, -1, 0, 0, 0, 0)));
                _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0xF));
            }
            total = tasor_sum_of_32_lanes_f32x8(acc);
        }
        out[i] = total;
    }
}
