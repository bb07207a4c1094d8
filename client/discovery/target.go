package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// Service types of the specification.
const (
	ToolInvoker         = "tool-invoker"
	ResourceProvider    = "resource-provider"
	MultiCapability     = "multi-capability"
	CodeExecutionEngine = "code-execution-engine"
)

// Target is a ServiceTarget: a service and its address.
type Target struct {
	ID              string `json:"id,omitempty"` // a UUID assigned by the server
	ServiceName     string `json:"serviceName"`  // required
	Host            string `json:"host"`         // required: an address or a name, see RegistrationAddress
	Port            int    `json:"port"`         // required: the service's gRPC port
	ServiceType     string `json:"serviceType"`  // required: one of the constants
	ServiceSubType  string `json:"serviceSubType,omitempty"`
	LanguageName    string `json:"languageName,omitempty"`
	LanguageType    string `json:"languageType,omitempty"`
	LanguageSubType string `json:"languageSubType,omitempty"`
}

func (t Target) check() error {
	switch {
	case t.ServiceName == "":
		return errors.New("no service name")
	case t.Host == "":
		return errors.New("no host: set the address at which the router reaches the service")
	case t.Port < 1 || t.Port > 65535:
		return fmt.Errorf("invalid port %d", t.Port)
	}
	if _, ok := typeNumber(t.ServiceType); !ok {
		return fmt.Errorf("service type %q: use %s, %s, %s or %s",
			t.ServiceType, ToolInvoker, ResourceProvider, MultiCapability, CodeExecutionEngine)
	}
	return nil
}

// Standard reasons of a State.
const (
	ReasonHealthy            = "healthy"
	ReasonMissingInAction    = "missing in action"
	ReasonAutoDeregistration = "inactive due to service auto-deregistration"
)

// State is a ServiceState: the health of a service at one moment.
type State struct {
	Timestamp time.Time `json:"timestamp"` // ISO-8601 in UTC on the wire
	Healthy   bool      `json:"healthy"`
	Reason    string    `json:"reason"`
}

// response is WanakuResponse, the response to a registration. It is read leniently: further
// members are ignored, and so are members of a wrong type, except the id.
type response struct {
	Error json.RawMessage `json:"error"`
	Data  json.RawMessage `json:"data"`
}

// assignedID returns the id in the response to a registration, or fallback, which is the id
// sent.
func assignedID(body []byte, fallback string) (string, error) {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		return "", fmt.Errorf("read the response: %w", err)
	}
	var data struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(r.Data, &data)
	switch {
	case data.ID != "":
		return data.ID, nil
	case len(r.Error) > 0 && string(r.Error) != "null":
		return "", fmt.Errorf("the router returned an error: %q", errorText(r.Error))
	case fallback != "":
		return fallback, nil
	}
	return "", errors.New("read the response: no id")
}

// errorText returns the message of a WanakuError, or all of it, truncated.
func errorText(raw json.RawMessage) string {
	var e struct {
		Message string `json:"message"`
	}
	text := string(raw)
	if json.Unmarshal(raw, &e) == nil && e.Message != "" {
		text = e.Message
	}
	return rest.Shorten(text)
}
