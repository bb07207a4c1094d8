package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The service types of the document.
const (
	ToolInvoker         = "tool-invoker"
	ResourceProvider    = "resource-provider"
	MultiCapability     = "multi-capability"
	CodeExecutionEngine = "code-execution-engine"
)

// Target is a ServiceTarget: a service and where it is reached.
type Target struct {
	ID              string `json:"id,omitempty"` // a UUID that the server assigns
	ServiceName     string `json:"serviceName"`  // required
	Host            string `json:"host"`         // required: an address or a name, see RegistrationAddress
	Port            int    `json:"port"`         // required: of the service's gRPC
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
		return errors.New("no host: name the address that the router reaches the service at")
	case t.Port < 1 || t.Port > 65535:
		return fmt.Errorf("port %d is none", t.Port)
	}
	if _, ok := typeNumber(t.ServiceType); !ok {
		return fmt.Errorf("service type %q: use %s, %s, %s or %s", t.ServiceType, ToolInvoker, ResourceProvider, MultiCapability, CodeExecutionEngine)
	}
	return nil
}

// The standard reasons of a State.
const (
	ReasonHealthy            = "healthy"
	ReasonMissingInAction    = "missing in action"
	ReasonAutoDeregistration = "inactive due to service auto-deregistration"
)

// State is a ServiceState: how a service was at one moment.
type State struct {
	Timestamp time.Time `json:"timestamp"` // ISO-8601 in UTC on the wire
	Healthy   bool      `json:"healthy"`
	Reason    string    `json:"reason"`
}

// response is WanakuResponse: what register answers. It is read leniently: further members are
// ignored, and so are those of a wrong type, except for the id.
type response struct {
	Error json.RawMessage `json:"error"`
	Data  json.RawMessage `json:"data"`
}

// assignedID takes the id out of the answer to a registration. Fallback is the id that was sent.
func assignedID(body []byte, fallback string) (string, error) {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	var data struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(r.Data, &data)
	switch {
	case data.ID != "":
		return data.ID, nil
	case len(r.Error) > 0 && string(r.Error) != "null":
		return "", fmt.Errorf("the router answered an error: %q", errorText(r.Error))
	case fallback != "":
		return fallback, nil
	}
	return "", errors.New("read the answer: it holds no id")
}

// errorText is the message in a WanakuError, or all of it, cut.
func errorText(raw json.RawMessage) string {
	var e struct {
		Message string `json:"message"`
	}
	text := string(raw)
	if json.Unmarshal(raw, &e) == nil && e.Message != "" {
		text = e.Message
	}
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
