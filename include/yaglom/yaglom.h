// Everything a user of yaglom needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "yaglom/builder.h"
#include "yaglom/cache.h"
#include "yaglom/compile.h"
#include "yaglom/device.h"
#include "yaglom/dlpack.h"
#include "yaglom/export.h"
#include "yaglom/kernel.h"
#include "yaglom/result.h"
#include "yaglom/safetensors.h"
#include "yaglom/schedule.h"
#include "yaglom/spec.h"
#include "yaglom/tensor.h"
#include "yaglom/tune.h"
