package poolreg

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Settings is the registration section of a pool manager's configuration file
// (POOLREG-18070). The first five keys are the specification's, the others are Holdfast's
// own.
type Settings struct {
	// OrchestratorURL is one base URL, or several separated by commas. If empty, only the
	// platform is used.
	OrchestratorURL     string `json:"orchestrator_url"`
	PoolID              string `json:"pool_id"`
	HeartbeatIntervalMs int64  `json:"heartbeat_interval_ms"`
	RetryBackoffBaseMs  int64  `json:"retry_backoff_base_ms"`
	RetryBackoffMaxMs   int64  `json:"retry_backoff_max_ms"`

	Endpoint            string            `json:"endpoint"`
	NodeID              string            `json:"node_id"`
	Region              string            `json:"region"`
	Version             string            `json:"version"`
	TokenFile           string            `json:"token_file"`
	AllowPlaintextToken bool              `json:"allow_plaintext_token"`
	TimeoutMs           int64             `json:"timeout_ms"`
	Platform            *PlatformSettings `json:"platform"`
}

// PlatformSettings is the section of the file for a marketplace.
type PlatformSettings struct {
	URL               string    `json:"url"` // as OrchestratorURL
	TokenFile         string    `json:"token_file"`
	ProviderID        string    `json:"provider_id"`
	Endpoint          string    `json:"endpoint"`
	AuthTokenFile     string    `json:"auth_token_file"`
	RefreshIntervalMs int64     `json:"refresh_interval_ms"`
	Pricing           Pricing   `json:"pricing"`
	Capacity          *Capacity `json:"capacity"`
	SLA               SLA       `json:"sla"`
	Geo               Geo       `json:"geo"`
}

// ParseSettings parses a file with one key, registration. An unknown key is an error that
// names it.
func ParseSettings(text []byte) (Settings, error) {
	var file struct {
		Registration *Settings `json:"registration"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return Settings{}, fmt.Errorf("read the configuration: %w", err)
	}
	if file.Registration == nil {
		return Settings{}, errors.New("read the configuration: no key registration")
	}
	return *file.Registration, nil
}

// Config returns the Config of the settings. It reads the file with the provider's token.
// The tokens of requests are read when they are needed.
func (s Settings) Config() (Config, error) {
	cfg := Config{
		Pool: Pool{
			ID: s.PoolID, Endpoint: s.Endpoint, NodeID: s.NodeID, Region: s.Region, Version: s.Version,
		},
		HeartbeatInterval: ms(s.HeartbeatIntervalMs),
		RetryBackoffBase:  ms(s.RetryBackoffBaseMs),
		RetryBackoffMax:   ms(s.RetryBackoffMaxMs),
		Timeout:           ms(s.TimeoutMs),
		AllowPlaintext:    s.AllowPlaintextToken,
	}
	if s.OrchestratorURL != "" {
		cfg.Orchestrator = &Server{URLs: strings.Split(s.OrchestratorURL, ","), TokenFile: s.TokenFile}
	}
	if p := s.Platform; p != nil {
		cfg.Platform = &Platform{
			Server:     Server{URLs: strings.Split(p.URL, ","), TokenFile: p.TokenFile},
			ProviderID: p.ProviderID, Endpoint: p.Endpoint, Pricing: p.Pricing, Capacity: p.Capacity,
			SLA: p.SLA, Geo: p.Geo, Refresh: ms(p.RefreshIntervalMs),
		}
		if p.AuthTokenFile != "" {
			b, err := os.ReadFile(p.AuthTokenFile)
			if err != nil {
				return Config{}, fmt.Errorf("read the provider's token: %w", err)
			}
			cfg.Platform.AuthToken = strings.TrimSpace(string(b))
		}
	}
	// New validates the rest.
	return cfg, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
