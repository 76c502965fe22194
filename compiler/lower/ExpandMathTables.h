// The polynomials and split constants behind ExpandMath, one set for float32 and one for float64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/lower/ExpandMathEmitter.h"

namespace yaglom::compiler {

/// Minimax fits by Remez exchange, coefficients rounded one after the other. z is the square of the argument.
struct MathTables {
  llvm::ArrayRef<double> sinHalf;    // sin r = r + r z P(z), |r| <= 1.6
  llvm::ArrayRef<double> sinQuarter; // sin r = r + r z P(z), |r| <= 0.8
  llvm::ArrayRef<double> cosQuarter; // cos r = 1 - z/2 + z^2 P(z), |r| <= 0.8
  llvm::ArrayRef<double> exp;        // e^r = 1 + r + r^2 P(r), |r| <= 0.35, fitted relative to e^r
  llvm::ArrayRef<double> expm1;      // the same, fitted relative to e^r - 1
  llvm::ArrayRef<double> exp2;       // 2^r = 1 + r P(r), |r| <= 0.5
  llvm::ArrayRef<double> log;     // float32: log(1+f) = f - f^2/2 + f^3 P(f); float64: log((1+s)/(1-s)) = 2s + s z P(z)
  llvm::ArrayRef<double> erf;     // erf x = x + x P(z), |x| <= 1
  llvm::ArrayRef<double> logErfc; // log erfc x = P(x), x >= 1, fitted relative to erf x
  llvm::ArrayRef<double> tanhNumerator;   // tanh x = x + x z P(z) / Q(z), |x| <= tanhSmall
  llvm::ArrayRef<double> tanhDenominator; // float64 only; Q = 1 where it is empty
  double tanhSmall, tanhOne, erfOne;      // the end of the first formula; where the result rounds to 1
  double expLow, expHigh;                 // e^x is 0 below, infinite above
  double exp2Low, exp2High;
  double expm1Low;                           // e^x - 1 is -1 below
  double pi[3], halfPi[3], ln2[2], log2e[2]; // sums of decreasing terms
  double minNormal;
  unsigned long long sqrtHalfBits;
};

namespace tables {
inline constexpr double kSinHalfF[] = {-0.166666567, 0.00833299104, -0.00019803959, 2.59312401e-06};
inline constexpr double kSinQuarterF[] = {-0.166666478, 0.00833174493, -0.000194615204};
inline constexpr double kCosQuarterF[] = {0.0416666344, -0.00138867809, 2.43743561e-05};
inline constexpr double kExpF[] = {0.499999911, 0.166665062, 0.041668918, 0.00837042835, 0.00137905159};
inline constexpr double kExpm1F[] = {0.5, 0.166666657, 0.0416664742, 0.00833353586, 0.00139345531, 0.000197733971};
inline constexpr double kExp2F[] = {0.693147182,   0.240226477,   0.0555035956,
                                    0.00961850025, 0.00133909716, 0.000153288871};
inline constexpr double kLogF[] = {0.333333313, -0.250008225, 0.20001249,  -0.166233137,
                                   0.142013282, -0.131602749, 0.127643332, -0.0763735846};
inline constexpr double kTanhF[] = {-0.333332598, 0.133308277, -0.0536877215, 0.0204683077, -0.0055138506};
inline constexpr double kErfF[] = {0.128379166,  -0.37612626,     0.112835787,   -0.0268533472,
                                   0.0051871622, -0.000799785194, 7.80689079e-05};
inline constexpr double kLogErfcF[] = {-0.000341738632, -1.12708831,    -0.638146281,  -0.103105538,
                                       0.0218375158,    -0.00294753397, 0.000186368343};
inline constexpr double kSinHalfD[] = {-0.16666666666666666,   0.008333333333333194,    -0.00019841269841205578,
                                       2.755731921010707e-06,  -2.5052106752502385e-08, 1.6058932696395068e-10,
                                       -7.642789920469214e-13, 2.7188942915971427e-15};
inline constexpr double kSinQuarterD[] = {-0.1666666666666662,    0.008333333333319726,    -0.0001984126982763756,
                                          2.7557312933711745e-06, -2.5050638738753828e-08, 1.5889846343699785e-10};
inline constexpr double kCosQuarterD[] = {0.041666666666666574,   -0.0013888888888869768, 2.4801587286779838e-05,
                                          -2.755731357647191e-07, 2.0875618440112198e-09, -1.1354251663604308e-11};
inline constexpr double kExpD[] = {0.5,
                                   0.16666666666666677,
                                   0.04166666666666649,
                                   0.00833333333332073,
                                   0.001388888888896874,
                                   0.00019841269888695102,
                                   2.480158716400578e-05,
                                   2.755724136493981e-06,
                                   2.755740657602472e-07,
                                   2.5110109188253314e-08,
                                   2.0875119975543497e-09};
inline constexpr double kExp2D[] = {0.6931471805599453,     0.2402265069591013,     0.055504108664820084,
                                    0.009618129107594117,   0.0013333558146774672,  0.00015403530457114832,
                                    1.5252733493085081e-05, 1.3215435281124795e-06, 1.0178199587150439e-07,
                                    7.073783428780592e-09,  4.4347692654649646e-10};
inline constexpr double kLogD[] = {0.6666666666666734,  0.3999999999941617,  0.285714287422289, 0.22222198575512558,
                                   0.18183564814326608, 0.15314024438893886, 0.1479633331965501};
inline constexpr double kErfD[] = {0.12837916709551256,     -0.37612638903183343,    0.11283791670936949,
                                   -0.026866170641958616,   0.005223977596728703,    -0.000854832548450088,
                                   0.00012055280476717728,  -1.4924465157737754e-05, 1.6444143335924048e-06,
                                   -1.6183925642923064e-07, 1.3616371153837484e-08,  -7.607115159409415e-10};
inline constexpr double kLogErfcD[] = {
    -2.7807480934260704e-08, -1.1283789156692523,     -0.6366207344320715,    -0.1027708149398054,
    0.019128042917448743,    0.0002023079690121667,   -0.0016749695978715252, 0.0005523649487595194,
    2.2005060929106226e-05,  -0.00011078193982724589, 6.476023121616841e-05,  -2.427984778348536e-05,
    6.783989247461835e-06,   -1.469656967141657e-06,  2.4812783837428917e-07, -3.2192847662957994e-08,
    3.1079694135986617e-09,  -2.1051205596807181e-10, 8.928396937307307e-12,  -1.783894979558439e-13};

/// For pow: log((1+s)/(1-s)) = 2s + (2/3) s z + s z^2 P(z).
inline constexpr double kLogTail[] = {0.3999999999999998,  0.2857142857144385, 0.22222222217785073, 0.1818181884475242,
                                      0.15384558366420614, 0.133362672186725,  0.1167571980718776,  0.1198230173163368};
/// Lambert's continued fraction of tanh, cut after 17.
inline constexpr double kTanhNumeratorD[] = {-11486475, -810810, -12870, -44};
inline constexpr double kTanhDenominatorD[] = {34459425, 16216200, 945945, 13860, 45};
/// For pow: ln 2 as a term with 21 trailing zeros, so that its multiples by an exponent are exact, and the rest.
inline constexpr double kLn2Short[] = {6.93147180369123816490e-01, 1.90821492927058770002e-10};
inline constexpr double kTwoThirds[] = {0.6666666666666666, 3.700743415417188e-17};
} // namespace tables

inline const MathTables kFloat32Tables = {
    .sinHalf = tables::kSinHalfF,
    .sinQuarter = tables::kSinQuarterF,
    .cosQuarter = tables::kCosQuarterF,
    .exp = tables::kExpF,
    .expm1 = tables::kExpm1F,
    .exp2 = tables::kExp2F,
    .log = tables::kLogF,
    .erf = tables::kErfF,
    .logErfc = tables::kLogErfcF,
    .tanhNumerator = tables::kTanhF,
    .tanhDenominator = {},
    .tanhSmall = 0.65,
    .tanhOne = 10,
    .erfOne = 4,
    .expLow = -105,
    .expHigh = 89,
    .exp2Low = -151,
    .exp2High = 129,
    .expm1Low = -20,
    .pi = {3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15},
    .halfPi = {1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15},
    .ln2 = {0.6931471824645996, -1.9046542121259336e-09},
    .log2e = {1.4426950216293335, 1.925963033500011e-08},
    .minNormal = 0x1p-126,
    .sqrtHalfBits = 0x3f3504f3,
};

inline const MathTables kFloat64Tables = {
    .sinHalf = tables::kSinHalfD,
    .sinQuarter = tables::kSinQuarterD,
    .cosQuarter = tables::kCosQuarterD,
    .exp = tables::kExpD,
    .expm1 = tables::kExpD,
    .exp2 = tables::kExp2D,
    .log = tables::kLogD,
    .erf = tables::kErfD,
    .logErfc = tables::kLogErfcD,
    .tanhNumerator = tables::kTanhNumeratorD,
    .tanhDenominator = tables::kTanhDenominatorD,
    .tanhSmall = 0.7,
    .tanhOne = 20,
    .erfOne = 6,
    .expLow = -746,
    .expHigh = 710,
    .exp2Low = -1076,
    .exp2High = 1025,
    .expm1Low = -40,
    .pi = {3.141592653589793, 1.2246467991473532e-16, -2.994769809718363e-33},
    .halfPi = {1.5707963267948966, 6.123233995736766e-17, -1.4973849048591815e-33},
    .ln2 = {0.6931471805599453, 2.3190468138462996e-17},
    .log2e = {1.4426950408889634, 2.0355273740931033e-17},
    .minNormal = 0x1p-1022,
    .sqrtHalfBits = 0x3fe6a09e667f3bcd,
};

inline const MathTables &tablesOf(const MathEmitter &e) { return e.isWide() ? kFloat64Tables : kFloat32Tables; }

} // namespace yaglom::compiler
