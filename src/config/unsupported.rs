//! The options of Centrifugo that have no meaning here.
//!
//! Owns: their names, of Centrifugo 6.9. Promises: somebody who copies an option learns that it was not forgotten by
//! mistake. Must not: know the options that are supported.

/// Whether Centrifugo has such an option. `within` is the path to it, perhaps with numbers of lists.
pub(super) fn has(within: &str, name: &str) -> bool {
    let section = within.split('[').next().unwrap_or_default();
    let section = match section {
        "channel.without_namespace" | "channel.namespaces" => "channel options",
        other => other,
    };
    let names = OPTIONS.iter().find(|(of, _)| *of == section);
    names.is_some_and(|(_, names)| names.split_whitespace().any(|one| one == name))
}

const OPTIONS: &[(&str, &str)] = &[
    (
        "",
        "http_server log engine broker presence_manager map_broker controller shared_poll rpc proxies grpc_api \
         consumers websocket webtransport uni_sse uni_http_stream uni_websocket uni_grpc emulation admin prometheus \
         health swagger debug init opentelemetry graphite usage_stats node shutdown pid_file \
         enable_unreleased_features",
    ),
    (
        "client",
        "proxy allowed_origins subscription_token disallow_anonymous_connection_tokens ping_interval pong_timeout \
         expired_close_delay expired_sub_close_delay stale_close_delay channel_limit queue_max_size \
         presence_update_interval concurrency channel_position_check_delay channel_position_max_time_lag \
         connection_limit user_connection_limit connection_rate_limit connect_include_server_time \
         history_max_publication_limit recovery_max_publication_limit insecure_skip_token_signature_verify \
         user_id_http_header connect_code_to_unidirectional_disconnect",
    ),
    (
        "client.token",
        "hmac_previous_secret_key hmac_previous_secret_key_valid_until rsa_public_key ecdsa_public_key \
         jwks_public_endpoint audience audience_regex issuer issuer_regex user_id_claim \
         insecure_skip_jwks_endpoint_safety_check",
    ),
    (
        "client.subscribe_to_user_personal_channel",
        "personal_channel_namespace single_connection",
    ),
    (
        "channel",
        "proxy history_meta_ttl publication_data_format max_length private_prefix namespace_boundary user_boundary \
         user_separator",
    ),
    (
        "channel options",
        "map_clients_presence_channel_prefix map_users_presence_channel_prefix history_meta_ttl allow_positioning \
         allow_recovery force_recovery_mode auto_cache_recover allow_tags_filter allow_user_limited_channels \
         channel_regex publication_data_format subscribe_proxy_enabled subscribe_proxy_name publish_proxy_enabled \
         publish_proxy_name sub_refresh_proxy_enabled sub_refresh_proxy_name subscribe_stream_proxy_enabled \
         subscribe_stream_proxy_name subscribe_stream_proxy_bidirectional subscription_type map shared_poll",
    ),
    (
        "http_api",
        "disabled handler_prefix error_mode external insecure",
    ),
    ("http_stream", "handler_prefix max_request_body_size"),
    ("sse", "handler_prefix max_request_body_size"),
];
