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
            acc_0 = _mm256_set1_ps(-INFINITY);
            acc_1 = _mm256_set1_ps(-INFINITY);
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                part[1] = x[j * 80 + 1];
                part[2] = x[j * 80 + 3];
                part[3] = x[j * 80 + 5];
                part[4] = x[j * 80 + 7];
                part[5] = x[j * 80 + 9];
                part[6] = x[j * 80 + 11];
                part[7] = x[j * 80 + 13];
                row = _mm256_loadu_ps(part);
            }
            taps =
                _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(x
                + j * 80), _mm256_loadu_ps(x + j * 80 + 7), 0xD8)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0, acc_0,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                part[1] = x[j * 80 + 17];
                part[2] = x[j * 80 + 19];
                part[3] = x[j * 80 + 21];
                part[4] = x[j * 80 + 23];
                part[5] = x[j * 80 + 25];
                part[6] = x[j * 80 + 27];
                part[7] = x[j * 80 + 29];
                row = _mm256_loadu_ps(part);
            }
            taps =
                _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(x
                + j * 80 + 16), _mm256_loadu_ps(x + j * 80 + 16 + 7), 0xD8)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_1 = _mm256_blendv_ps(_mm256_max_ps(acc_1, row), acc_1, _mm256_cmp_ps(acc_1, acc_1,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                part[1] = x[j * 80 + 33];
                part[2] = x[j * 80 + 35];
                part[3] = x[j * 80 + 37];
                part[4] = x[j * 80 + 39];
                part[5] = x[j * 80 + 41];
                part[6] = x[j * 80 + 43];
                part[7] = x[j * 80 + 45];
                row = _mm256_loadu_ps(part);
            }
            taps =
                _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(x
                + j * 80 + 32), _mm256_loadu_ps(x + j * 80 + 32 + 7), 0xD8)), 0xD8));
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
            acc_0 = _mm_set1_ps(-INFINITY);
            acc_1 = _mm_set1_ps(-INFINITY);
            row = _mm_shuffle_ps(_mm_loadu_ps(x + j * 80 + 9), _mm_loadu_ps(x + j * 80 + 9 + 3),
                0xD8);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                part[0] = x[j * 80 + 10];
                part[1] = x[j * 80 + 12];
                part[2] = x[j * 80 + 14];
                taps = _mm_loadu_ps(part);
            }
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            row = _mm_shuffle_ps(_mm_loadu_ps(x + j * 80 + 25), _mm_loadu_ps(x + j * 80 + 25 + 3),
                0xD8);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                part[0] = x[j * 80 + 26];
                part[1] = x[j * 80 + 28];
                part[2] = x[j * 80 + 30];
                taps = _mm_loadu_ps(part);
            }
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
            row = _mm_shuffle_ps(_mm_loadu_ps(x + j * 80 + 41), _mm_loadu_ps(x + j * 80 + 41 + 3),
                0xD8);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                part[0] = x[j * 80 + 42];
                part[1] = x[j * 80 + 44];
                part[2] = x[j * 80 + 46];
                taps = _mm_loadu_ps(part);
            }
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_1 = _mm_blendv_ps(_mm_max_ps(acc_1, row), acc_1, _mm_cmpunord_ps(acc_1, acc_1));
            _mm_storeu_ps(out + j * 27 + 5, acc_0);
            _mm_storeu_ps(out + j * 27 + 14, acc_1);
        }
        {
            __m256 acc_0;
            __m256 row;
            __m256 taps;
            acc_0 = _mm256_set1_ps(-INFINITY);
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                part[1] = x[j * 80 + 49];
                part[2] = x[j * 80 + 51];
                part[3] = x[j * 80 + 53];
                part[4] = x[j * 80 + 55];
                part[5] = x[j * 80 + 57];
                part[6] = x[j * 80 + 59];
                part[7] = x[j * 80 + 61];
                row = _mm256_loadu_ps(part);
            }
            taps =
                _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(x
                + j * 80 + 48), _mm256_loadu_ps(x + j * 80 + 48 + 7), 0xD8)), 0xD8));
            row = _mm256_blendv_ps(_mm256_max_ps(row, taps), row, _mm256_cmp_ps(row, row,
                _CMP_UNORD_Q));
            acc_0 = _mm256_blendv_ps(_mm256_max_ps(acc_0, row), acc_0, _mm256_cmp_ps(acc_0, acc_0,
                _CMP_UNORD_Q));
            {
                float part[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                    -INFINITY, -INFINITY};
                part[1] = x[j * 80 + 65];
                part[2] = x[j * 80 + 67];
                part[3] = x[j * 80 + 69];
                part[4] = x[j * 80 + 71];
                part[5] = x[j * 80 + 73];
                part[6] = x[j * 80 + 75];
                part[7] = x[j * 80 + 77];
                row = _mm256_loadu_ps(part);
            }
            taps =
                _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(x
                + j * 80 + 64), _mm256_loadu_ps(x + j * 80 + 64 + 7), 0xD8)), 0xD8));
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
            acc_0 = _mm_set1_ps(-INFINITY);
            row = _mm_shuffle_ps(_mm_loadu_ps(x + j * 80 + 57), _mm_loadu_ps(x + j * 80 + 57 + 3),
                0xD8);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                part[0] = x[j * 80 + 58];
                part[1] = x[j * 80 + 60];
                part[2] = x[j * 80 + 62];
                taps = _mm_loadu_ps(part);
            }
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            row = _mm_shuffle_ps(_mm_loadu_ps(x + j * 80 + 73), _mm_loadu_ps(x + j * 80 + 73 + 3),
                0xD8);
            {
                float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
                part[0] = x[j * 80 + 74];
                part[1] = x[j * 80 + 76];
                part[2] = x[j * 80 + 78];
                taps = _mm_loadu_ps(part);
            }
            row = _mm_blendv_ps(_mm_max_ps(row, taps), row, _mm_cmpunord_ps(row, row));
            acc_0 = _mm_blendv_ps(_mm_max_ps(acc_0, row), acc_0, _mm_cmpunord_ps(acc_0, acc_0));
            _mm_storeu_ps(out + j * 27 + 23, acc_0);
        }
    }
}
