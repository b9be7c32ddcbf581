/* SPDX-License-Identifier: Apache-2.0 */
/* core/stats/stats.h - the few statistics that reports print, as pure
 * functions of counts.  No I/O, no state. */
#ifndef JB_STATS_H
#define JB_STATS_H

#include <stdint.h>

/* Two-sided 95 % normal quantile, Phi^-1(0.975). */
#define JB_Z95 1.959963984540054

/* Wilson score interval of a binomial share (E. B. Wilson, "Probable
 * inference, the law of succession, and statistical inference", JASA 22, 1927):
 * `successes` out of `trials` at normal quantile z (JB_Z95 for 95 %).  Both
 * ends lie in [0,1]; no trials give the vacuous [0,1].  `successes` is clamped
 * to [0, trials]. */
void jb_stats_wilson(int64_t successes, int64_t trials, double z, double *low, double *high);

#endif
