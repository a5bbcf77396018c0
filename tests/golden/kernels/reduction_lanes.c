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
            for (ptrdiff_t lane = 0; lane < 16; lane += 8) {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc + lane),
                    _mm256_loadu_ps(acc + lane + 16));
                _mm256_storeu_ps(acc + lane, acc_lanes);
            }
            for (ptrdiff_t lane = 0; lane < 8; lane += 8) {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc + lane),
                    _mm256_loadu_ps(acc + lane + 8));
                _mm256_storeu_ps(acc + lane, acc_lanes);
            }
            {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_maskload_ps(acc
                    + 0 + 4, _mm256_setr_epi32(-1, -1, -1, -1, 0, 0, 0, 0)));
                _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0xF));
            }
            {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_maskload_ps(acc
                    + 0 + 2, _mm256_setr_epi32(-1, -1, 0, 0, 0, 0, 0, 0)));
                _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0x3));
            }
            {
                const __m256 acc_lanes = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_maskload_ps(acc
                    + 0 + 1, _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, 0)));
                _mm256_storeu_ps(acc, _mm256_blend_ps(_mm256_loadu_ps(acc), acc_lanes, 0x1));
            }
            total = acc[0];
        }
        out[i] = total;
    }
}
