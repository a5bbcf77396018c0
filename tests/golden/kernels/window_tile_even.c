/* expr: out[i,j,l,m] = max(k,r,s) select(0 <= l * 2 + r - 1 && 0 <= m * 2 + s - 1 && m * 2 + s -
 *   1 < 16, x[0,j,l * 2 + r - 1,m * 2 + s - 1], -inf)
 * schedule: window_tile(2 rows); columns(8@0 + 4@5); parallel(2) */
static void window_tile_even(const float *restrict x, float *restrict out)
{
    TASOR_PARALLEL_FOR
    for (ptrdiff_t j = 0; j < 3; j++) {
        {
            __m256 acc_0;
            __m256 acc_1;
            __m256 row;
            __m256 taps;
            __m256 low;
            __m256 high;
            acc_0 = _mm256_set1_ps(-INFINITY);
            acc_1 = _mm256_set1_ps(-INFINITY);
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                memcpy(part + 1, x + j * 80, 7 * sizeof(part[0]));
                low = _mm256_loadu_ps(part);
            }
            high = _mm256_loadu_ps(x + j * 80 + 7);
            TASOR_KEEP(high);
            row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0x88)), 0xD8));
            taps = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0xDD)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0, acc_0,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                memcpy(part + 1, x + j * 80 + 16, 7 * sizeof(part[0]));
                low = _mm256_loadu_ps(part);
            }
            high = _mm256_loadu_ps(x + j * 80 + 23);
            TASOR_KEEP(high);
            row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0x88)), 0xD8));
            taps = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0xDD)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_1 = _mm256_blendv_ps(_mm256_max_ps(acc_1, row), acc_1, _mm256_cmp_ps(acc_1, acc_1,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                memcpy(part + 1, x + j * 80 + 32, 7 * sizeof(part[0]));
                low = _mm256_loadu_ps(part);
            }
            high = _mm256_loadu_ps(x + j * 80 + 39);
            TASOR_KEEP(high);
            row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0x88)), 0xD8));
            taps = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0xDD)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_1 = _mm256_blendv_ps(_mm256_max_ps(acc_1, row), acc_1, _mm256_cmp_ps(acc_1, acc_1,
                _CMP_UNORD_Q));
            _mm256_storeu_ps(out + j * 27, acc_0);
            _mm256_storeu_ps(out + j * 27 + 9, acc_1);
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
            low = _mm_loadu_ps(x + j * 80 + 9);
            TASOR_KEEP(low);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                memcpy(part, x + j * 80 + 13, 3 * sizeof(part[0]));
                high = _mm_loadu_ps(part);
            }
            row = _mm_shuffle_ps(low, high, 0x88);
            taps = _mm_shuffle_ps(low, high, 0xDD);
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            low = _mm_loadu_ps(x + j * 80 + 25);
            TASOR_KEEP(low);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                memcpy(part, x + j * 80 + 29, 3 * sizeof(part[0]));
                high = _mm_loadu_ps(part);
            }
            row = _mm_shuffle_ps(low, high, 0x88);
            taps = _mm_shuffle_ps(low, high, 0xDD);
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
            low = _mm_loadu_ps(x + j * 80 + 41);
            TASOR_KEEP(low);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                memcpy(part, x + j * 80 + 45, 3 * sizeof(part[0]));
                high = _mm_loadu_ps(part);
            }
            row = _mm_shuffle_ps(low, high, 0x88);
            taps = _mm_shuffle_ps(low, high, 0xDD);
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
            _mm_storeu_ps(out + j * 27 + 5, acc_0);
            _mm_storeu_ps(out + j * 27 + 14, acc_1);
        }
        {
            __m256 acc_0;
            __m256 row;
            __m256 taps;
            __m256 low;
            __m256 high;
            acc_0 = _mm256_set1_ps(-INFINITY);
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                memcpy(part + 1, x + j * 80 + 48, 7 * sizeof(part[0]));
                low = _mm256_loadu_ps(part);
            }
            high = _mm256_loadu_ps(x + j * 80 + 55);
            TASOR_KEEP(high);
            row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0x88)), 0xD8));
            taps = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0xDD)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0, acc_0,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                memcpy(part + 1, x + j * 80 + 64, 7 * sizeof(part[0]));
                low = _mm256_loadu_ps(part);
            }
            high = _mm256_loadu_ps(x + j * 80 + 71);
            TASOR_KEEP(high);
            row = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0x88)), 0xD8));
            taps = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(low,
                high, 0xDD)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0, acc_0,
                _CMP_UNORD_Q));
            _mm256_storeu_ps(out + j * 27 + 18, acc_0);
        }
        {
            __m128 acc_0;
            __m128 row;
            __m128 taps;
            __m128 low;
            __m128 high;
            acc_0 = _mm_set1_ps(-INFINITY);
            low = _mm_loadu_ps(x + j * 80 + 57);
            TASOR_KEEP(low);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                memcpy(part, x + j * 80 + 61, 3 * sizeof(part[0]));
                high = _mm_loadu_ps(part);
            }
            row = _mm_shuffle_ps(low, high, 0x88);
            taps = _mm_shuffle_ps(low, high, 0xDD);
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            low = _mm_loadu_ps(x + j * 80 + 73);
            TASOR_KEEP(low);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                memcpy(part, x + j * 80 + 77, 3 * sizeof(part[0]));
                high = _mm_loadu_ps(part);
            }
            row = _mm_shuffle_ps(low, high, 0x88);
            taps = _mm_shuffle_ps(low, high, 0xDD);
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            _mm_storeu_ps(out + j * 27 + 23, acc_0);
        }
    }
}
