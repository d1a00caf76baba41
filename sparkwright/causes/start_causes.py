"""Causes of a failed start: image, command line, model files, port."""

from sparkwright.causes.cause import APPLY, SPACE_REMEDY, LogCause
from sparkwright.common.command_line import next_line

START_CAUSES = (
    LogCause(
        name="image-for-other-processor",
        cause="The image is for another processor: a Spark's is arm64",
        remedy="Take an image that has linux/arm64; `docker manifest inspect IMAGE` lists them",
        source="Linux' ENOEXEC as runc words it; Docker's words",
        pattern=r"(?i)exec format error|no matching manifest for linux/arm64|"
        r"platform \(linux/amd64\) does not match",
    ),
    LogCause(
        name="image-absent",
        cause="Docker does not have the release's image any more",
        remedy=f"{APPLY} fetches it",
        source="the release's own `run`, and Docker with --pull never",
        pattern=r"^Docker has no |No such image:",
    ),
    LogCause(
        name="release-absent",
        cause="The files of the release are not on the Spark",
        remedy=f"{APPLY} installs them",
        source="files/host/engine/supervisor.py",
        pattern=r"releases/\S+/unit\.json: .*run Sparkwright again",
    ),
    LogCause(
        name="image-parts",
        cause="The image's components do not match: torch, CUDA and vLLM are from different "
        "builds, or a module is missing",
        remedy="Use the image that the recipe names, by its digest "
        f"(`{next_line('lock', '--refresh')}` takes today's); rebuild an image of your own "
        "completely, and install nothing into it with pip",
        source="spark-arena/sparkrun#127, #280; eugr/spark-vllm-docker#135, #141, #238, #263",
        pattern=r"(ImportError|OSError): .*(cannot open shared object file|undefined symbol)|"
        r"^(?!.*(WARNING|INFO|DEBUG)).*(undefined symbol: _Z|ModuleNotFoundError: |"
        r"ImportError: cannot import name|"
        r"version `\w+_[\d.]+' not found|operator \S+ does not exist|"
        r"'_OpNamespace' '\w+' object has no attribute|"
        r"module '(torch|triton|flashinfer|vllm)[\w.]*' has no attribute|"
        r"TypeError: \w+\.__init__\(\) got an unexpected keyword)|"
        r"flashinfer-cubin \S+ does not match|"
        r"FileNotFoundError: .*(dist|site)-packages/(flashinfer|vllm|torch|triton)/",
    ),
    LogCause(
        name="unknown-flag",
        cause="The image's vLLM does not know a flag of the recipe, or does not accept its value",
        remedy="Compare with the recipe's `vllm` version: flags come and go; `make check-recipes` "
        "tells which",
        source="vLLM exits 2 on its command line; pydantic's words for what is within JSON",
        pattern=r"\S: error: (unrecognized arguments|argument|ambiguous option)|"
        r"\[type=(unexpected_keyword_argument|extra_forbidden|literal_error)\b",
    ),
    LogCause(
        name="unknown-variable",
        cause="The image's vLLM does not know a VLLM_ variable of the recipe",
        remedy="Remove it from the recipe's `env`: several gave way to flags "
        "(VLLM_USE_FLASHINFER_MOE_FP4 to --moe-backend in 0.24, "
        "VLLM_TEST_FORCE_FP8_MARLIN in 0.29)",
        source="vLLM with --fail-on-environ-validation",
        pattern=r"ValueError: Unknown vLLM environment variable",
    ),
    LogCause(
        name="unknown-parser",
        cause="vLLM has no such tool or reasoning parser",
        remedy="Qwen3.5 and 3.6 take tool-call-parser qwen3_coder or qwen3_xml, and "
        "reasoning-parser qwen3",
        source="vLLM's registry",
        pattern=r"(?i)invalid (tool call|reasoning) parser|"
        r"(Tool|Reasoning) parser '?\S+'? not found",
    ),
    LogCause(
        name="context-beyond-model",
        cause="max-model-len exceeds the model's context length",
        remedy="Lower it to what the message says; for a million tokens the YaRN override must "
        "stand inside text_config, as in recipe qwen3.5-35b-1m",
        source="vLLM's check of the configuration",
        pattern=r"max_model_len \(\d+\) is greater than the derived max_model_len",
    ),
    LogCause(
        name="model-too-new",
        cause="The image is too old for the model: its transformers does not know the architecture",
        remedy="Use the image that the recipe names: qwen3_5_moe needs vLLM 0.17 or newer",
        source="vllm-project/vllm#36217; the SM121 guide, whose rebuilt image lost it",
        pattern=r"does not recognize this architecture|Model architectures .* are not supported|"
        r"Tokenizer class \S+ does not exist|Unrecognized (model in|configuration class)|"
        r"KeyError: '(qwen|glm|deepseek|gemma|nemotron|llama|mistral|minimax|kimi|gpt_oss)\w*'$",
    ),
    LogCause(
        name="quantization",
        cause="The recipe's `quantization` differs from the checkpoint's, or vLLM does not "
        "support the checkpoint's",
        remedy="Remove quantization from the recipe: vLLM reads it from the checkpoint; if it "
        "does not support it, use the release that the model's card names",
        source="vLLM's check of the model's configuration; vllm-project/vllm#19050",
        pattern=r"Quantization method specified in the model config|Unknown quantization method",
    ),
    LogCause(
        name="custom-code",
        cause="The checkpoint contains Python code, and the recipe does not allow it to run",
        remedy="Read that code. If you trust its author, set trust-remote-code: true in the "
        "recipe and `trusts: [trust-remote-code]` for the replica",
        source="transformers' words",
        pattern=r"contains custom code which must be executed",
    ),
    LogCause(
        name="speculation",
        cause="The drafter, or the number of tokens that it drafts, does not fit this model in "
        "this vLLM",
        remedy="Set speculative-config to what the drafter's card says, at least its block size of "
        "tokens, or take it out",
        source="vllm-project/vllm#50012; vLLM's checks of speculative-config",
        pattern=r"[Vv]alue ?[Ee]rror\b.{0,500}\b"
        r"(num_speculative_tokens|[Ss]peculative|[Dd]raft|DFlash|DSpark|EAGLE|MTP)",
    ),
    LogCause(
        name="stale-weights-layout",
        cause="The checkpoint's weight names differ from what this vLLM expects (as in the first "
        "version of AEON-7's, without `language_model.`)",
        remedy=f"Take the present commit: `{next_line('lock', '--refresh')}`, then {APPLY}",
        source="AEON-7, version 2",
        pattern=r"no module or parameter named|weights were not initialized from checkpoint|"
        r"Attempted to load nested weight|"
        r"KeyError: '(\w+\.)*(layers\.\d+\.|\w+\.\w*(weight|bias|scale))|"
        r"has no parameter '",
    ),
    LogCause(
        name="broken-weights",
        cause="A weights file is truncated or damaged",
        remedy="Hash them all and fetch what is wrong: "
        f"`{next_line('apply', '--data weights=verify')}`",
        source="MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#30",
        pattern=r"SafetensorError|MetadataIncompleteBuffer|HeaderTooLarge|UnpicklingError: ",
    ),
    LogCause(
        name="files-absent",
        cause="A file of the model is not on the Spark, and the engine asks no hub",
        remedy=f"{APPLY} fetches what the lock names; for a gated model accept "
        "its license on the web first, and log in with `hf auth login`",
        source="HF_HUB_OFFLINE=1, which every release sets",
        pattern=r"(OfflineModeIsEnabled|(LocalEntry|Entry|Repository|Revision)NotFoundError|"
        r"GatedRepoError): |access a gated repo|is not a valid model identifier|"
        r"Invalid repository ID or local directory|"
        r"No such file or directory: '\S*(safetensors|config|tokenizer)[\w.]*\.json'|"
        r"Repo id must be in the form|does not appear to have a file named|"
        r"Can't load the configuration of|couldn't connect to|"
        r"Cannot find any model weights with|"
        r"Weight files referenced in index but missing",
    ),
    LogCause(
        name="port-taken",
        cause="Another process took the port",
        remedy="`sudo ss -ltnp` names it: stop it, or give the replica another `port:`",
        source="EADDRINUSE",
        pattern=r"[Aa]ddress already in use|EADDRINUSE|port is already allocated",
    ),
    LogCause(
        name="shm-full",
        cause="/dev/shm is full; the engine's processes communicate through it",
        remedy="It is the container's own, of 16 GiB, and empty at each start: restart the engine; "
        "of a release from before, which used the Spark's, `ls -l /dev/shm` shows what it has left",
        source="the words of NCCL, PyTorch and Python; --shm-size bounds ours",
        pattern=r"creating shared memory segment|No space left on device: '/(psm_|dev/shm)|"
        r"out of shared memory\b",
    ),
    LogCause(
        name="read-only-root",
        cause="The image tries to write to the container's root, which is read-only",
        remedy="Send what it writes into /root/.cache, which outlasts the engine, or into /tmp, by "
        "a variable of the recipe's `env`; /dev/shm is open as well",
        source="EROFS; `docker run --read-only`, which every release has",
        pattern=r"OSError: \[Errno 30\]|filesystem error: .*Read-only file system",
    ),
    LogCause(
        name="weights-unreadable",
        cause="The engine (root without capabilities) cannot read a weights file",
        remedy="Let all read what is in the checkpoint's folder: `sudo chmod -R a+rX FOLDER`",
        source="EACCES; `docker run --cap-drop ALL`, which every release has",
        pattern=r"Permission denied: '/models/",
    ),
    LogCause(
        name="weights-away",
        cause="Weights that are used in place, on another disk or in the network, are not there, "
        "or were changed",
        remedy="Have the folder mounted as it was, then `sudo systemctl reset-failed 'vllm@*'` and "
        f"`{next_line('start')}`; or take it out of model_folders: {APPLY} then fetches them",
        source="files/host/weights/in_place.py, before each start of an engine",
        pattern=r"weights in place: ",
    ),
    LogCause(
        name="disk-full",
        cause="The disk is full",
        remedy=f"`df -h` and `docker system df` show what fills it. {SPACE_REMEDY}",
        source="ENOSPC, EDQUOT",
        pattern=r"(?i:no space left on device)|Disk quota exceeded",
    ),
)
