package auth

import (
	"regexp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// resourceOf returns the resource that a refused request named, and its request id, for
// the audit trail. Values that are not valid names are left out.
func resourceOf(req proto.Message) (resource, requestID string) {
	if req == nil {
		return "", ""
	}
	m := req.ProtoReflect()
	requestID = field(m, "request_id")
	for _, kind := range [...]struct{ field, prefix string }{
		{"run_id", "runs/"}, {"machine_id", "machines/"}, {"plan_id", "plans/"}, {"token_id", "tokens/"},
		{"pool_id", "pools/"}, {"mac_address", "nodes/"}, {"id", ""}, {"name", ""},
	} {
		if id := field(m, kind.field); id != "" {
			return kind.prefix + id, requestID
		}
	}
	for _, inner := range [...]struct{ field, id, prefix string }{
		{"machine", "machine_id", "machines/"}, {"plan", "plan_id", "plans/"}, {"pool", "pool_id", "pools/"},
		{"provider", "provider_id", "providers/"}, {"target", "id", "services/"},
	} {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(inner.field))
		if fd == nil || fd.Message() == nil || fd.IsList() || fd.IsMap() || !m.Has(fd) {
			continue
		}
		if id := field(m.Get(fd).Message(), inner.id); id != "" {
			return inner.prefix + id, requestID
		}
	}
	return "", requestID
}

func field(m protoreflect.Message, name string) string {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	if v := m.Get(fd).String(); resourceName.MatchString(v) {
		return v
	}
	return ""
}

// resourceName matches the name of a resource or a request. Any other value could be a
// secret, such as a token in the wrong field.
var resourceName = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,64}$`)
