/* expr: out[i,j,l,m] = min(max((sum(k,r,s) select(0 <= l + r - 1 && l + r - 1 < 2 && 0 <= m + s
 *   - 1 && m + s - 1 < 7, x[0,j,l + r - 1,m + s - 1], 0.0) * y[j,0,r,s]) + z[j,0,0], 0.0), 6.0)
 * schedule: window_tile(2 rows); columns(8[7]@0) */
static void window_tile(const float *restrict x, const float *restrict y, const float *restrict z,
    float *restrict out)
{
    for (ptrdiff_t j = 0; j < 3; j++) {
        __m256 acc_0;
        __m256 acc_1;
        __m256 weight_0;
        __m256 weight_1;
        __m256 weight_2;
        __m256 taps;
        __m256 value_0;
        __m256 value_1;
        __m256 value_2;
        acc_0 = _mm256_set1_ps(0.0f);
        acc_1 = _mm256_set1_ps(0.0f);
        weight_0 = _mm256_set1_ps(y[j * 9]);
        weight_1 = _mm256_set1_ps(y[j * 9 + 3]);
        weight_2 = _mm256_set1_ps(y[j * 9 + 6]);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x7E, (const float *)((uintptr_t)(x + j * 14) -
            sizeof(float)));
        acc_0 = _mm256_fmadd_ps(taps, weight_1, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_0, acc_1);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x7E, x + j * 14 + 6);
        acc_0 = _mm256_fmadd_ps(taps, weight_2, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_1, acc_1);
        weight_0 = _mm256_set1_ps(y[j * 9 + 1]);
        weight_1 = _mm256_set1_ps(y[j * 9 + 4]);
        weight_2 = _mm256_set1_ps(y[j * 9 + 7]);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x7F, x + j * 14);
        acc_0 = _mm256_fmadd_ps(taps, weight_1, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_0, acc_1);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x7F, x + j * 14 + 7);
        acc_0 = _mm256_fmadd_ps(taps, weight_2, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_1, acc_1);
        weight_0 = _mm256_set1_ps(y[j * 9 + 2]);
        weight_1 = _mm256_set1_ps(y[j * 9 + 5]);
        weight_2 = _mm256_set1_ps(y[j * 9 + 8]);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x3F, x + j * 14 + 1);
        acc_0 = _mm256_fmadd_ps(taps, weight_1, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_0, acc_1);
        taps = _mm256_maskz_loadu_ps((__mmask8)0x3F, x + j * 14 + 8);
        acc_0 = _mm256_fmadd_ps(taps, weight_2, acc_0);
        acc_1 = _mm256_fmadd_ps(taps, weight_1, acc_1);
        value_0 = _mm256_set1_ps(z[j]);
        acc_0 = _mm256_add_ps(acc_0, value_0);
        value_1 = _mm256_set1_ps(0.0f);
        acc_0 = _mm256_max_ps(value_1, acc_0);
        value_2 = _mm256_set1_ps(6.0f);
        acc_0 = _mm256_min_ps(value_2, acc_0);
        _mm256_mask_storeu_ps(out + j * 14, (__mmask8)0x7F, acc_0);
        acc_1 = _mm256_add_ps(acc_1, value_0);
        acc_1 = _mm256_max_ps(value_1, acc_1);
        acc_1 = _mm256_min_ps(value_2, acc_1);
        _mm256_mask_storeu_ps(out + j * 14 + 7, (__mmask8)0x7F, acc_1);
    }
}
