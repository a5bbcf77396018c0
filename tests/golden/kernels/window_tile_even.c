/* expr: out[i,j,l,m] = max(k,r,s) select(0 <= l * 2 + r - 1 && 0 <= m * 2 + s - 1 && m * 2 + s -
 *   1 < 16, x[0,j,l * 2 + r - 1,m * 2 + s - 1], -inf)
 * schedule: window_tile(2 rows); columns(8@0 + 4@5); parallel(2) */
static void window_tile_even(const float *restrict x, float *restrict out)
{
    TASOR_TEAM_FOR(turn, 6) {
        const ptrdiff_t j = turn / 2;
        const ptrdiff_t r_o = turn % 2;
        if (r_o < 1) {
            {
                __m256 acc_0;
                __m256 acc_1;
                __m256 row;
                __m256 taps;
                __m256 low;
                __m256 high;
                acc_0 = _mm256_set1_ps(-INFINITY);
                acc_1 = _mm256_set1_ps(-INFINITY);
                low = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps((const float
                    *)((uintptr_t)(x + j * 80 + r_o * 64) - sizeof(float)), _mm256_setr_epi32(0, -1,
                    -1, -1, -1, -1, -1, -1)), _mm256_castsi256_ps(_mm256_setr_epi32(0, -1, -1, -1,
                    -1, -1, -1, -1)));
                TASOR_KEEP(low);
                high = _mm256_loadu_ps(x + j * 80 + r_o * 64 + 7);
                TASOR_KEEP(high);
                row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0x88)), 0xD8));
                taps =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0xDD)), 0xD8));
                row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                    _CMP_UNORD_Q));
                acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0,
                    acc_0, _CMP_UNORD_Q));
                low = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x + j * 80 +
                    r_o * 64 + 15, _mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)),
                    _mm256_castsi256_ps(_mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)));
                TASOR_KEEP(low);
                high = _mm256_loadu_ps(x + j * 80 + r_o * 64 + 23);
                TASOR_KEEP(high);
                row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0x88)), 0xD8));
                taps =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0xDD)), 0xD8));
                row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                    _CMP_UNORD_Q));
                acc_1 = _mm256_blendv_ps(_mm256_max_ps(acc_1, row), acc_1, _mm256_cmp_ps(acc_1,
                    acc_1, _CMP_UNORD_Q));
                low = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x + j * 80 +
                    r_o * 64 + 31, _mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)),
                    _mm256_castsi256_ps(_mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)));
                TASOR_KEEP(low);
                high = _mm256_loadu_ps(x + j * 80 + r_o * 64 + 39);
                TASOR_KEEP(high);
                row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0x88)), 0xD8));
                taps =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0xDD)), 0xD8));
                row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                    _CMP_UNORD_Q));
                acc_1 = _mm256_blendv_ps(_mm256_max_ps(acc_1, row), acc_1, _mm256_cmp_ps(acc_1,
                    acc_1, _CMP_UNORD_Q));
                _mm256_storeu_ps(out + j * 27 + r_o * 18, acc_0);
                _mm256_storeu_ps(out + j * 27 + r_o * 18 + 9, acc_1);
            }
            {
                __m128 acc_0;
                __m128 acc_1;
                __m128 row;
                __m128 taps;
                __m128 low;
                __m128 high;
                acc_0 = _mm_set1_ps(-INFINITY);
                acc_1 = _mm_set1_ps(-INFINITY);
                low = _mm_loadu_ps(x + j * 80 + r_o * 64 + 9);
                TASOR_KEEP(low);
                high = _mm_blendv_ps(_mm_set1_ps(-INFINITY), _mm_maskload_ps(x + j * 80 + r_o * 64 +
                    13, _mm_setr_epi32(-1, -1, -1, 0)), _mm_castsi128_ps(_mm_setr_epi32(-1, -1, -1,
                    0)));
                TASOR_KEEP(high);
                row = _mm_shuffle_ps(low, high, 0x88);
                taps = _mm_shuffle_ps(low, high, 0xDD);
                row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
                acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
                low = _mm_loadu_ps(x + j * 80 + r_o * 64 + 25);
                TASOR_KEEP(low);
                high = _mm_blendv_ps(_mm_set1_ps(-INFINITY), _mm_maskload_ps(x + j * 80 + r_o * 64 +
                    29, _mm_setr_epi32(-1, -1, -1, 0)), _mm_castsi128_ps(_mm_setr_epi32(-1, -1, -1,
                    0)));
                TASOR_KEEP(high);
                row = _mm_shuffle_ps(low, high, 0x88);
                taps = _mm_shuffle_ps(low, high, 0xDD);
                row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
                acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
                low = _mm_loadu_ps(x + j * 80 + r_o * 64 + 41);
                TASOR_KEEP(low);
                high = _mm_blendv_ps(_mm_set1_ps(-INFINITY), _mm_maskload_ps(x + j * 80 + r_o * 64 +
                    45, _mm_setr_epi32(-1, -1, -1, 0)), _mm_castsi128_ps(_mm_setr_epi32(-1, -1, -1,
                    0)));
                TASOR_KEEP(high);
                row = _mm_shuffle_ps(low, high, 0x88);
                taps = _mm_shuffle_ps(low, high, 0xDD);
                row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
                acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
                _mm_storeu_ps(out + j * 27 + r_o * 18 + 5, acc_0);
                _mm_storeu_ps(out + j * 27 + r_o * 18 + 14, acc_1);
            }
        } else {
            {
                __m256 acc_0;
                __m256 row;
                __m256 taps;
                __m256 low;
                __m256 high;
                acc_0 = _mm256_set1_ps(-INFINITY);
                low = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x + j * 80 +
                    r_o * 32 + 15, _mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)),
                    _mm256_castsi256_ps(_mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)));
                TASOR_KEEP(low);
                high = _mm256_loadu_ps(x + j * 80 + r_o * 32 + 23);
                TASOR_KEEP(high);
                row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0x88)), 0xD8));
                taps =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0xDD)), 0xD8));
                row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                    _CMP_UNORD_Q));
                acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0,
                    acc_0, _CMP_UNORD_Q));
                low = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x + j * 80 +
                    r_o * 32 + 31, _mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)),
                    _mm256_castsi256_ps(_mm256_setr_epi32(0, -1, -1, -1, -1, -1, -1, -1)));
                TASOR_KEEP(low);
                high = _mm256_loadu_ps(x + j * 80 + r_o * 32 + 39);
                TASOR_KEEP(high);
                row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0x88)), 0xD8));
                taps =
                    _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                    high, 0xDD)), 0xD8));
                row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                    _CMP_UNORD_Q));
                acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0,
                    acc_0, _CMP_UNORD_Q));
                _mm256_storeu_ps(out + j * 27 + r_o * 9 + 9, acc_0);
            }
            {
                __m128 acc_0;
                __m128 row;
                __m128 taps;
                __m128 low;
                __m128 high;
                acc_0 = _mm_set1_ps(-INFINITY);
                low = _mm_loadu_ps(x + j * 80 + r_o * 32 + 25);
                TASOR_KEEP(low);
                high = _mm_blendv_ps(_mm_set1_ps(-INFINITY), _mm_maskload_ps(x + j * 80 + r_o * 32 +
                    29, _mm_setr_epi32(-1, -1, -1, 0)), _mm_castsi128_ps(_mm_setr_epi32(-1, -1, -1,
                    0)));
                TASOR_KEEP(high);
                row = _mm_shuffle_ps(low, high, 0x88);
                taps = _mm_shuffle_ps(low, high, 0xDD);
                row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
                acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
                low = _mm_loadu_ps(x + j * 80 + r_o * 32 + 41);
                TASOR_KEEP(low);
                high = _mm_blendv_ps(_mm_set1_ps(-INFINITY), _mm_maskload_ps(x + j * 80 + r_o * 32 +
                    45, _mm_setr_epi32(-1, -1, -1, 0)), _mm_castsi128_ps(_mm_setr_epi32(-1, -1, -1,
                    0)));
                TASOR_KEEP(high);
                row = _mm_shuffle_ps(low, high, 0x88);
                taps = _mm_shuffle_ps(low, high, 0xDD);
                row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
                acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
                _mm_storeu_ps(out + j * 27 + r_o * 9 + 14, acc_0);
            }
        }
    }
}
