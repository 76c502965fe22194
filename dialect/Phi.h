// The phi dialect: types, interfaces and ops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/PhiDialect.h.inc"
#include "dialect/PhiInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/PhiOps.h.inc"
