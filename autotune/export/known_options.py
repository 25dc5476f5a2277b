"""Every option that SGLang-diffusion 0.5.23 knows, by what follows it: names only, and how they concern a prediction.

Written ``name`` or ``name/other spelling``, without the two hyphens. Sources of the names: the server arguments and
their disaggregation part, the pipeline, DiT, VAE and quantisation configurations, and the sampling parameters of
``generate``. The placement options are in ``sglang_parser``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Follows(StrEnum):
    """What follows an option's name."""

    NOTHING = "nothing"
    TRUE_OR_FALSE = "true or false, or nothing"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "one or more texts"
    ANY_TEXTS = "any number of texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOption:
    """One option of the server.

    Attributes:
        names: its spellings, with the hyphens; the first one is shown.
        field: what the server calls its value; keys of a configuration file are these.
        follows: what comes after the name.
    """

    names: tuple[str, ...]
    field: str
    follows: Follows

    @property
    def name(self) -> str:
        """The spelling that is shown."""
        return self.names[0]


_SERVE: dict[Follows, str] = {
    Follows.TRUE_OR_FALSE: """
        allow-bf16-reduced-precision-reduction allow-cudnn-tf32 diffusion-decoder-parallel-tiling
        diffusion-decoder-tiling direct-gpu-weight-loading disable-autocast dit-cpu-offload dit-layerwise-offload
        enable-breakable-cuda-graph enable-cfg-parallel enable-layerwise-nvtx-marker enable-metrics enable-nccl-nvls
        enable-svdquant enable-torch-compile image-encoder-cpu-offload load-diffusion-decoder minimax-h3-adaln-online
        offload-during-compile pin-cpu-memory quantization-act-unsigned refiner-chunked regional-compile streaming
        strict-ports text-encoder-cpu-offload trust-remote-code use-fsdp-inference vae-config.load-decoder
        vae-config.load-encoder vae-config.use-parallel-decode vae-config.use-parallel-tiling
        vae-config.use-temporal-tiling vae-config.use-tiling vae-cpu-offload vae-slicing vae-sp vae-tiling webui""",
    Follows.NOTHING: """
        async-output-save disable-conditioning-cache enable-batching-metrics enable-cache-report enable-trace
        kv-cache-quant-asymmetric log-requests sleep-on-idle""",
    Follows.INTEGER: """
        base-gpu-id batching-max-size cfg-parallel-size data-parallel-size/dp-size/dp decoder-sp denoiser-ring
        denoiser-sp denoiser-tp denoiser-ulysses disagg-downstream-wait-timeout disagg-instance-id
        disagg-max-slots-per-instance disagg-timeout disagg-transfer-pool-size dist-timeout encoder-tp
        hsdp-replicate-dim hsdp-shard-dim http-graceful-shutdown-timeout kv-cache-quant-block-size
        kv-cache-quant-centroids kv-cache-quant-iters kv-cache-quant-keep-recent kv-cache-quant-sink
        kv-cache-quant-sink-keep kv-cache-quant-stages kv-gather-degree log-requests-level lora-alpha master-port
        minimax-h3-adaln-plan-width nnodes node-rank num-frame-per-block num-gpus port quantization-rank
        realtime-causal-kv-cache-num-frames realtime-causal-sink-size resolution ring-degree scheduler-port
        scheduler-rpc-timeout sp-degree srt-encoder-connection-timeout srt-encoder-timeout tp-size ulysses-degree
        vae-config.blend-num-frames vae-config.tile-sample-min-height vae-config.tile-sample-min-num-frames
        vae-config.tile-sample-min-width vae-config.tile-sample-stride-height
        vae-config.tile-sample-stride-num-frames vae-config.tile-sample-stride-width warmup-num-frames warmup-steps
        webui-port""",
    Follows.NUMBER: """
        batching-delay-ms conditioning-cache-max-size-mb disagg-transfer-redundancy dit-layerwise-resident-layers
        dit-offload-prefetch-size embedded-cfg-scale flow-shift lora-scale minimax-h3-adaln-host-cache-gb""",
    Follows.TEXT: """
        attention-backend attention-backend-config backend batching-config batching-mode cache-dit-config
        component-attention-backends config decoder-urls denoiser-urls disagg-dispatch-policy disagg-ib-device
        disagg-p2p-hostname disagg-role disagg-role-device disagg-server-addr disagg-transfer-backend
        disagg-transfer-pin-memory dist-init-addr dit-config.prefix dit-config.quant-config
        dit-config.torch-compile-mode dit-layerwise-residency-lifetime dit-layerwise-residency-policy dit-precision
        dmd-denoising-steps encoder-parallel encoder-urls host image-encoder-precision image-encoder-urls
        input-save-path kv-cache-quant layerwise-prefetch-size layerwise-residency-lifetime
        layerwise-residency-policy layerwise-resident-layers log-level log-requests-format lora-merge-mode
        lora-nickname lora-path lora-weight-name ltx2-two-stage-device-mode mask-strategy-file-path
        minimax-h3-adaln-cache-path model-id model-path model-subfolder model-variant otlp-service-name
        otlp-traces-endpoint output-path pe-server-url performance-mode/mode pipeline-config-path
        pipeline/pipeline-class-name prompt-encoder-urls prompt-enhancer-config prompt-file-path quantization
        quantization-precision revision scheduler-class-override served-model-name srt-encoder-url
        transformer-weights-path vae-config.parallel-decode-mode vae-decode-precision vae-precision warmup-mode
        warmup-sampling-params""",
    Follows.TEXTS: """
        bcg-text-buckets component-residency cpu-offload-components gpu-ids
        layerwise-offload-components/layerwise-offload-modules log-requests-target numa-node
        quantization-ignored-layers text-encoder-precisions warmup-resolutions""",
    Follows.ANY_TEXTS: "uvicorn-access-log-exclude-prefixes",
}
# Options of `generate` besides those of `serve`: one request, and what becomes of its output.
_GENERATE: dict[Follows, str] = {
    Follows.TRUE_OR_FALSE: """
        adjust-frames enable-cache-dit enable-cfg-renorm enable-prompt-rewrite enable-sequence-shard
        return-file-paths-only rollout-debug-mode rollout-log-prob-no-const""",
    Follows.NOTHING: """
        1080p 2k 4k 720p auto-duration debug enable-frame-interpolation enable-spectrum enable-teacache
        enable-upscaling no-override-protected-fields no-save-output num-frames-round-down profile
        profile-all-stages return-frames return-trajectory-decoded return-trajectory-latents rollout save-output
        use-diffusion-decoder""",
    Follows.INTEGER: """
        domain-id fps frame-interpolation-exp height history-size/history_size max-sequence-length num-frames
        num-inference-steps num-outputs-per-prompt/num-outputs num-profiled-timesteps output-compression
        progressive-levels raw-action-dim spectrum-m/spectrum_m spectrum-tau-num-steps/spectrum_tau_num_steps
        spectrum-warmup-steps/spectrum_warmup_steps sr-num-steps sr-tiles-batch-size taylor-order/taylor_order
        upscaling-scale width""",
    Follows.NUMBER: """
        action-fps auto-duration-max-seconds auto-duration-min-seconds boundary-ratio cfg-gate-step
        cfg-normalization cfg-renorm-min frame-interpolation-scale guidance-rescale guidance-scale guidance-scale-2
        pitch-limit-deg/pitch_limit_deg progressive-delta rollout-noise-level rotation-speed-deg/rotation_speed_deg
        sound-duration spectrum-flex-window/spectrum_flex_window/flex-window/flex_window spectrum-lam/spectrum_lam
        spectrum-window-size/spectrum_window_size/window-size/window_size sr-resolution-scale sr-tile-min-overlap
        translation-speed/translation_speed true-cfg-scale w""",
    Follows.TEXT: """
        action action-mode attention-backend-override bot-task cache-dit-params diffusers-kwargs domain-name
        frame-interpolation-model-path generator-device moba-config-path negative-prompt output-file-name
        output-file-path output-quality perf-dump-path progressive-mode prompt-path quality rollout-sde-type
        sr-target-resize-mode sr-target-resolution system-prompt task-type text-encoder-configs
        upscaling-model-path x264-preset""",
    Follows.TEXTS: "data-type image-path/image-paths prompt seed video-path",
}
# Where the server's name for the value is not the option's own.
_FIELDS = {
    "cfg-parallel-size": "cfg_parallel_degree",
    "data-parallel-size": "dp_size",
    "pipeline": "pipeline_class_name",
    "no-save-output": "save_output",
}

# Options that concern files, networks, logs, warm-up and waiting: a request takes the same time whatever they say.
_WITHOUT_EFFECT = """
    base_gpu_id batching_mode batching_delay_ms conditioning_cache_max_size_mb config data_type debug
    disable_conditioning_cache disagg_dispatch_policy disagg_downstream_wait_timeout disagg_ib_device
    disagg_instance_id disagg_max_slots_per_instance disagg_p2p_hostname disagg_role_device disagg_server_addr
    disagg_timeout disagg_transfer_backend disagg_transfer_pin_memory disagg_transfer_pool_size
    disagg_transfer_redundancy dist_init_addr dist_timeout enable_batching_metrics enable_cache_report
    enable_metrics enable_nccl_nvls enable_trace encoder_parallel fps generator_device guidance_rescale host
    hsdp_replicate_dim hsdp_shard_dim http_graceful_shutdown_timeout input_save_path log_level log_requests
    log_requests_format log_requests_level log_requests_target lora_nickname master_port model_id node_rank
    no_override_protected_fields numa_node otlp_service_name otlp_traces_endpoint output_compression
    output_file_name output_file_path output_path output_quality perf_dump_path port prompt prompt_file_path
    prompt_path regional_compile revision save_output scheduler_port scheduler_rpc_timeout seed
    served_model_name sleep_on_idle srt_encoder_connection_timeout srt_encoder_timeout strict_ports
    trust_remote_code uvicorn_access_log_exclude_prefixes warmup_mode warmup_num_frames warmup_resolutions
    warmup_sampling_params warmup_steps webui webui_port x264_preset"""
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
# Switches that are on unless they are turned off; all others are off, or decided by the model.
_ON_BY_DEFAULT = frozenset({"allow_bf16_reduced_precision_reduction", "allow_cudnn_tf32", "offload_during_compile"})
_UNCHANGED = {
    "backend": frozenset({"auto", "sglang"}),
    "batching_max_size": frozenset({"1"}),
    "disagg_role": frozenset({"monolithic"}),
    "kv_cache_quant": frozenset({"off"}),
    "num_outputs_per_prompt": frozenset({"1"}),
}


def _read(table: dict[Follows, str]) -> list[KnownOption]:
    options = []
    for follows, words in table.items():
        for word in words.split():
            first, *others = word.split("/")
            names = tuple(f"--{name}" for name in (first, *others))
            options.append(KnownOption(names=names, field=_FIELDS.get(first, first.replace("-", "_")), follows=follows))
    return options


SERVE_OPTIONS = tuple(_read(_SERVE))
GENERATE_OPTIONS = (*SERVE_OPTIONS, *_read(_GENERATE))


def changes_nothing(option: KnownOption, values: tuple[str, ...]) -> bool:
    """Whether a prediction is the same with ``option`` at ``values`` as without it."""
    if option.field in WITHOUT_EFFECT or set(values) <= _UNCHANGED.get(option.field, frozenset()):
        return True
    if option.follows is not Follows.TRUE_OR_FALSE:
        return False
    is_on = values != ("false",)
    return is_on == (option.field in _ON_BY_DEFAULT)
