/* expr: out[i] = sum(k) x[i,k]
 * schedule: lanes(reduction, 32); parallel(1) */
static void reduction_lanes(const float *restrict x, float *restrict out)
{
    TASOR_TEAM_FOR(i, 3) {
        float total;
        {
            float acc[32] TASOR_ALIGNED;
            TASOR_SIMD
            for (ptrdiff_t lane = 0; lane < 32; lane++) {
                acc[lane] = 0.0f;
            }
            for (ptrdiff_t k_o = 0; k_o < 3; k_o++) {
                TASOR_SIMD
                for (ptrdiff_t k_i = 0; k_i < 32; k_i++) {
                    acc[k_i] = acc[k_i] + x[i * 100 + k_i + k_o * 32];
                }
            }
            for (ptrdiff_t k_i = 0; k_i < 4; k_i++) {
                acc[k_i] = acc[k_i] + x[i * 100 + k_i + 96];
            }
            TASOR_SIMD
            for (ptrdiff_t lane = 0; lane < 16; lane++) {
                acc[lane] = acc[lane] + acc[lane + 16];
            }
            TASOR_SIMD
            for (ptrdiff_t lane = 0; lane < 8; lane++) {
                acc[lane] = acc[lane] + acc[lane + 8];
            }
            for (ptrdiff_t lane = 0; lane < 4; lane++) {
                acc[lane] = acc[lane] + acc[lane + 4];
            }
            for (ptrdiff_t lane = 0; lane < 2; lane++) {
                acc[lane] = acc[lane] + acc[lane + 2];
            }
            for (ptrdiff_t lane = 0; lane < 1; lane++) {
                acc[lane] = acc[lane] + acc[lane + 1];
            }
            total = acc[0];
        }
        out[i] = total;
    }
}
