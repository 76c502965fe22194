// RUN: yaglom-opt -phi-differentiate -verify-diagnostics %s

// expected-error @+1 {{is a gradient already: second derivatives are not supported}}
func.func @backward(%x: tensor<4xf32> {phi.side = "query"}, %dy: tensor<4xf32> {phi.side = "query"}) -> tensor<4xf32>
    attributes {phi.gradient = 1 : i64} {
  %dx = phi.mul %x, %dy : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %dx : tensor<4xf32>
}
