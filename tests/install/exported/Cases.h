// The exported attentions of main.c: their inputs (name, rows, width) and their parameters and draws (member, name, entries).
// SPDX-License-Identifier: Apache-2.0
#pragma once

enum { B = 3, H = 2, N = 150, M = 70, D = 16, E = 12 };

#define QKV(X) X(Q, "Q", N, D) X(K, "K", N, D) X(V, "V", N, E)
#define EVERYTHING(X)                                                                                                  \
  X(Q, "Q", N, D) X(bias, "bias", N, 1) X(K, "K", M, D) X(V, "V", M, E) X(register_2, "register", M, E)

#define NO_HEADS(X)
#define FLEXFORMER(X)                                                                                                  \
  X(flexformer_n_W1, "flexformer_n.W1", H * 16 * D)                                                                    \
  X(flexformer_n_W2, "flexformer_n.W2", H * 16 * D)                                                                    \
  X(flexformer_n_sigma, "flexformer_n.sigma", H) X(flexformer_n_tau, "flexformer_n.tau", H)
#define PERFORMER(X) X(favor_W, "favor.W", H * 16 * D)
#define RETENTION(X) X(retention_gamma, "retention.gamma", H)
#define SHARED(X) X(both_double, "both.double", H) X(features_scale, "features.scale", D)

// name, element, inputs, parameters and draws
#define CASES(X)                                                                                                       \
  X(flexformer, float, QKV, FLEXFORMER)                                                                                \
  X(linear_transformer, float, QKV, NO_HEADS)                                                                          \
  X(performer, float, QKV, PERFORMER)                                                                                  \
  X(exact, double, QKV, NO_HEADS)                                                                                      \
  X(retention, float, QKV, RETENTION)                                                                                  \
  X(shared, double, EVERYTHING, SHARED)                                                                                \
  X(levels, float, QKV, NO_HEADS)
