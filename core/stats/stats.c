/* SPDX-License-Identifier: Apache-2.0 */
/* core/stats/stats.c - see stats.h.  Checked against numbers that scipy
 * computed, in tests/stats/test_stats.c. */
#include "core/stats/stats.h"

#include <math.h>

void jb_stats_wilson(int64_t successes, int64_t trials, double z, double *low, double *high)
{
    if (trials <= 0) {
        *low = 0.0;
        *high = 1.0;
        return;
    }
    if (successes < 0) successes = 0;
    if (successes > trials) successes = trials;
    double n = (double)trials, p = (double)successes / n, zz = z * z;
    double centre = (p + zz / (2.0 * n)) / (1.0 + zz / n);
    double half = z * sqrt(p * (1.0 - p) / n + zz / (4.0 * n * n)) / (1.0 + zz / n);
    /* At the ends the formula is exactly 0 or 1; rounding must not say otherwise. */
    *low = successes == 0 ? 0.0 : fmax(0.0, centre - half);
    *high = successes == trials ? 1.0 : fmin(1.0, centre + half);
}
