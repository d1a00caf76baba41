"""A recipe of vllm-project/recipes with variants, for tests."""

TEXT = """\
meta:
  title: Model 30B
  hardware: {h100: verified, dgx_spark_gb10: verified}
model:
  model_id: owner/Model-30B
  min_vllm_version: "0.20.0"
  base_args: ["--max-num-seqs", "4", "--seed", "1"]
  base_env: {VLLM_USE_V2_MODEL_RUNNER: "0"}
features:
  tools:
    args: ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
  draft:
    args: ["--spec-tokens", "9"]
  pooled:
    strategies: [multi_node_tp]
    args: ["--pooled"]
  modes:
    default_mode: two
    modes:
      one: {args: ["--enforce-eager"]}
      two: {variants: [large], args: ["--two"]}
      three:
        args: ["--three", "no"]
        hardware_overrides: {dgx_spark_gb10: {args: ["--three", "yes"]}}
opt_in_features: [draft]
variants:
  default:
    precision: bf16
    vram_minimum_gb: 72
    extra_args: ["--max-num-seqs", "5"]
    hardware_overrides:
      dgx_spark_gb10:
        extra_args:
          - "--max-num-seqs"
          - "6"
        extra_env: {VLLM_USE_V2_MODEL_RUNNER: "1", NCCL_SOCKET_IFNAME: $IFACE}
      blackwell: {extra_args: ["--dtype", "half"]}
      hopper: {extra_args: ["--hopper"]}
  large:
    model_id: owner/Model-200B
    vram_minimum_gb: 200
    docker_image: {nvidia: {cu129: a/b:129, cu130: a/b:130}, amd: c/d}
    default_modes: {modes: three}
  huge: {vram_minimum_gb: 300}
  elsewhere: {vram_minimum_gb: 20, supported_hardware: [h100]}
compatible_strategies: [single_node_tp]
strategy_hardware:
  multi_node_tp: {dgx_spark_gb10: supported}
hardware_overrides:
  nvidia: {extra_args: ["--block-size", "16"]}
  amd: {extra_args: ["--amd"]}
strategy_overrides:
  multi_node_tp:
    hardware_overrides: {blackwell: {extra_args: ["--block-size", "32"]}}
"""
