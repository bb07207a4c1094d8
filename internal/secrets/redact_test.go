package secrets_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestRedact(t *testing.T) {
	put := &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc", Values: map[string]string{"password": "correct-horse"}}
	for _, tc := range []struct {
		name      string
		got, want proto.Message
	}{
		{"text", secrets.Redact(&holdfastv1.CreateTokenResponse{Token: &holdfastv1.Token{Name: "ci"}, Secret: "s"}),
			&holdfastv1.CreateTokenResponse{Token: &holdfastv1.Token{Name: "ci"}, Secret: secrets.Redacted}},
		{"map", secrets.Redact(put),
			&holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc", Values: map[string]string{"password": secrets.Redacted}}},
		{"inside of others",
			secrets.Redact(&internalv1.Entry{Commands: []*internalv1.Command{{Op: &internalv1.Command_RegisterAgent{
				RegisterAgent: &internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: "m-1"}}}}}}),
			&internalv1.Entry{Commands: []*internalv1.Command{{Op: &internalv1.Command_RegisterAgent{
				RegisterAgent: &internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: "m-1"}}}}}}},
		{"nothing", secrets.Redact((*holdfastv1.Secret)(nil)), (*holdfastv1.Secret)(nil)},
	} {
		if diff := cmp.Diff(tc.want, tc.got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if put.GetValues()["password"] != "correct-horse" {
		t.Error("got a changed message")
	}
	newer := &holdfastv1.Secret{Name: "x"}
	newer.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType),
		"correct-horse"))
	if got := secrets.Redact(newer); len(got.ProtoReflect().GetUnknown()) != 0 {
		t.Error("got an unknown field")
	}
}

// harmless lists fields whose names resemble secrets, with their contents.
func harmless() map[protoreflect.FullName]string {
	return map[protoreflect.FullName]string{
		"holdfast.v1.RegisterAgentRequest.token_sha256":  "the hash of 64 random bytes",
		"holdfast.v1.MachineSpec.bmc_credentials_ref":    "the name of a secret",
		"holdfast.v1.MachineSpec.ssh_credentials_ref":    "the name of a secret",
		"holdfast.v1.Webhook.secret_ref":                 "the name of a secret",
		"holdfast.v1.AgentRecord.private_ip":             "an address",
		"holdfast.v1.RegisterAgentRequest.private_ip":    "an address",
		"holdfast.v1.PlatformProvider.auth_token_sha256": "a hash",
		"holdfast.internal.v1.SnapshotRecord.key":        "the key of a row",
		"holdfast.internal.v1.NoteDevice.key":            "the key of a row",
		"holdfast.internal.v1.DeviceNote.key":            "the key of a row",
		"holdfast.internal.v1.BackupHeader.secrets_keys": "ids of keys",
	}
}

// suggestsSecret reports whether a field's name suggests a secret.
func suggestsSecret(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
	case protoreflect.MessageKind:
		if !f.IsMap() {
			return false
		}
	default:
		return false
	}
	name := string(f.Name())
	public := []string{"token_id", "token_ids", "page_token", "next_page_token", "key_id", "after_key_id"}
	if slices.Contains(public, name) {
		return false
	}
	return regexp.MustCompile(`passw|passphrase|secret|token|private|credential|bearer|api_?key|cookie|otp|(^|_)pin($|_)|(^|_)key$`).MatchString(name)
}

// TestFieldsAreMarked checks that every field whose name suggests a secret is marked, or listed as
// harmless.
func TestFieldsAreMarked(t *testing.T) {
	var messages int
	list := harmless()
	var walk func(protoreflect.MessageDescriptors)
	walk = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			if m.IsMapEntry() {
				continue
			}
			messages++
			walk(m.Messages())
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				if _, ok := list[f.FullName()]; ok {
					delete(list, f.FullName())
					continue
				}
				if suggestsSecret(f) && !secrets.Sensitive(f) {
					t.Errorf("%s may have a secret: mark it [(holdfast.v1.sensitive) = true], or list it here with "+
						"its contents", f.FullName())
				}
			}
		}
	}
	for _, pkg := range []protoreflect.FullName{"holdfast.v1", "holdfast.internal.v1"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(f protoreflect.FileDescriptor) bool {
			walk(f.Messages())
			return true
		})
	}
	if messages < 100 {
		t.Errorf("got only %d messages", messages)
	}
	for name := range list {
		t.Errorf("%s: listed field not found", name)
	}
}

// TestMarksAreSeen checks that marks can be read, without which the test above would find nothing.
func TestMarksAreRead(t *testing.T) {
	for name, want := range map[protoreflect.FullName]bool{
		"holdfast.v1.CreateTokenResponse.secret": true, "holdfast.v1.PutSecretRequest.values": true,
		"holdfast.internal.v1.SecretValues.values": true, "holdfast.v1.PutSecretRequest.name": false,
	} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := d.(protoreflect.FieldDescriptor); !ok || secrets.Sensitive(f) != want {
			t.Errorf("%s: got marked %v, want %v", name, !want, want)
		}
	}
}
