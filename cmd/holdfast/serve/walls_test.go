package serve

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// guesses are the values that a caller of the first tenant sends in a field: those of the other
// tenant, then one that does not exist. A field that is not here makes TestWalls fail, as does
// a method with a message that it cannot fill.
func guesses() map[string][]string {
	return map[string][]string{
		"machine_id":    {foreign.machine(), foreign.busy(), foreign.agent(), "m-none"},
		"machine_ids":   {foreign.machine(), foreign.busy(), "m-none"},
		"run_id":        {foreign.run(), foreign.activeRun(), "run-reused-" + foreign.name, "run-none"},
		"wave_id":       {foreign.wave(), "wave-none"},
		"session_id":    {"con-" + foreign.name, "oidc-" + foreign.name, "con-none"},
		"pool_id":       {foreign.pool(), "pool-none"},
		"pool":          {foreign.pool(), "pool-none"},
		"pools":         {foreign.pool(), "pool-none"},
		"pool_name":     {foreign.pool(), "pool-none"},
		"mac_address":   {foreign.macOf("01"), "02:00:00:00:00:99"},
		"mac_addresses": {foreign.macOf("01"), "02:00:00:00:00:99"},
		"mac":           {foreign.macOf("01"), "02:00:00:00:00:99"},
		"id":            {foreign.machine(), foreign.macOf("01"), markedService, "m-none"},
		"provider_id":   {foreign.provider(), "provider-none"},
		"provider_name": {"of-" + foreign.name, "of-none"},
		"filter": {"machine_id = \"" + foreign.machine() + "\"", "labels.team = \"" + foreign.name + "\"",
			"pool = \"" + foreign.pool() + "\"", "machine_id = \"m-none\""},
		"serial":              {"serial-01" + foreign.name, "serial-none"},
		"bmc_endpoint":        {"https://bmc01." + foreign.name + ".example", "https://bmc.none.example"},
		"ssh_endpoint":        {"ssh01." + foreign.name + ".example:22", "ssh.none.example:22"},
		"bmc_credentials_ref": {foreign.secret(), "bmc/none"},
		"ssh_credentials_ref": {foreign.secret(), "bmc/none"},
		"request_id":          {"req-" + foreign.run(), foreign.wave(), "req-none"},
		"plan_id":             {"one", "plan/reboot", "plan/none"},
		"type":                {"REBOOT", "NONE"},
		"name":                {foreign.secret(), "image", "none"},
		"region":              {"region-" + foreign.name, "none"},
		"gpu_model":           {"gpu-" + foreign.name, "none"},
		"workflow_id":         {"one", "none"},
	}
}

// free are the fields of requests that name nothing.
var free = []string{
	"page_size", "page_token", "cursor", "offset", "no_follow", "bookmarks", "validate_only", "replace", "force", "all",
	"max_machines",
	"max_parallel", "max_failures", "keep_runs", "reason", "comment", "ttl_seconds", "older_than_seconds", "dry_run",
	"min_available_vram_gb", "params", "paths", "update_mask", "state", "phase", "never_expires", "role", "labels",
	"read_only", "leave", "data", "columns", "rows", "cpu_seconds", "from_sequence", "token", "arch", "ip_address",
	"link_address", "status", "detail", "progress", "has_progress", "error", "host_keys", "installation_status",
	"installation_progress", "installation_error", "hostname", "cpu_millicores", "memory_mib", "gpu_count", "private_ip",
	"token_sha256", "agent_version", "metrics", "gpus", "workers_total", "workers_ready", "workers_busy",
	"uptime_seconds", "values", "all_pools", "to", "restore_id", "chunks", "abandon_runs", "other_cluster",
	"without_keys", "sequence", "saved_at", "peer", "time", "config", "webhook", "image", "token_id", "target",
	"hardware", "facts", "inventory", "node", "plan", "size", "sha256", "begin", "end", "url",
	"header", "max_active", "caller",
}

// bySender reports whether a method answers a machine that boots, which is known by its MAC address
// and has no credentials (docs/netboot.md).
func bySender(method string) bool { return method == "LookUpBoot" || method == "BootMachine" }

// hides reports whether the answers of a method must not show if a field names a record of another
// tenant. A caller that makes a machine learns whether its id and addresses are in use anywhere.
func hides(method, field string) bool {
	makes := []string{"RegisterMachine", "CreateNode", "CreateAgentMachine", "RegisterAgent"}
	return !slices.Contains(makes, method) && !bySender(method) &&
		slices.Contains([]string{"machine_id", "machine_ids", "run_id", "wave_id", "id", "mac_address"}, field)
}

// descend are the messages in requests whose fields name records.
var descend = []string{"machine", "spec", "pool", "provider"}

// request is a request of a method.
type request struct {
	proto.Message
	sent []string // the texts in it that name something
	path string   // the field with the guess
}

// requests returns the requests of a method: an empty one, and for each field one with each guess.
// All other fields of these have the values of the caller's own tenant.
func requests(t *testing.T, md protoreflect.MethodDescriptor) []request {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	all := []request{{Message: mt.New().Interface()}}
	for _, path := range fieldsOf(t, string(md.FullName()), md.Input(), nil) {
		for _, guess := range guesses()[string(path[len(path)-1].Name())] {
			m := mt.New()
			fillOwn(m)
			set(m, path, guess)
			all = append(all, request{m.Interface(), []string{guess}, string(path[len(path)-1].Name())})
		}
	}
	return all
}

// fieldsOf returns the paths of the fields that name something.
func fieldsOf(
	t *testing.T, method string, d protoreflect.MessageDescriptor, above []protoreflect.FieldDescriptor,
) (all [][]protoreflect.FieldDescriptor) {
	t.Helper()
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		name, path := string(fd.Name()), append(slices.Clone(above), fd)
		_, guessed := guesses()[name]
		switch {
		case fd.Message() != nil && !fd.IsMap() && !fd.IsList() && slices.Contains(descend, name) && len(above) < 2:
			all = append(all, fieldsOf(t, method, fd.Message(), path)...)
		case fd.Kind() == protoreflect.StringKind && guessed:
			all = append(all, path)
		case len(above) == 0 && !slices.Contains(free, name) && !guessed:
			t.Errorf("%s: this test does not know the field %s: add it to guesses or free", method, name)
		}
	}
	return all
}

// set sets a field of a message, which may be in a message of it.
func set(m protoreflect.Message, path []protoreflect.FieldDescriptor, value string) {
	for _, fd := range path[:len(path)-1] {
		m = m.Mutable(fd).Message()
	}
	fd := path[len(path)-1]
	if fd.IsList() {
		l := m.NewField(fd).List()
		l.Append(protoreflect.ValueOfString(value))
		m.Set(fd, protoreflect.ValueOfList(l))
		return
	}
	m.Set(fd, protoreflect.ValueOfString(value))
}

// fillOwn sets the fields that most methods need to values of the caller's own tenant.
func fillOwn(m protoreflect.Message) {
	values := map[string]string{
		"machine_id": own.machine(), "run_id": own.run(), "wave_id": own.wave(), "pool_id": own.pool(),
		"pool_name": own.pool(), "mac_address": own.macOf("01"), "request_id": "req-of-the-caller", "plan_id": "one",
		"id": own.machine(), "provider_id": own.provider(), "provider_name": "of-" + own.name,
	}
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		name := string(fd.Name())
		switch v, ok := values[name]; {
		case fd.Kind() == protoreflect.StringKind && !fd.IsList() && !fd.IsMap() && ok:
			m.Set(fd, protoreflect.ValueOfString(v))
		case fd.Kind() == protoreflect.StringKind && !fd.IsList() && name == "pool":
			m.Set(fd, protoreflect.ValueOfString(own.pool()))
		case fd.Message() != nil && !fd.IsMap() && !fd.IsList() && slices.Contains(descend, name):
			fillOwn(m.Mutable(fd).Message())
		}
	}
}

// leaks returns the marks of the other tenant, and of the peers, in an answer. What the caller has
// sent may be repeated.
func leaks(answer string, sent ...string) (found []string) {
	for _, s := range sent {
		quoted := fmt.Sprintf("%q", s)
		for _, form := range []string{
			s, quoted[1 : len(quoted)-1], html.EscapeString(s), url.QueryEscape(s), url.PathEscape(s),
			strings.ToUpper(s), strings.ReplaceAll(s, "\"", "&#34;"),
		} {
			answer = strings.ReplaceAll(answer, form, "")
		}
	}
	for _, mark := range append(foreign.marks(), infrastructure) {
		if i := strings.Index(strings.ToLower(answer), mark); i >= 0 {
			found = append(found, fmt.Sprintf("%q in …%.160s…", mark, answer[max(0, i-80):]))
		}
	}
	return found
}

// ask makes a call and returns all that the caller gets.
func (f *fleet) ask(t *testing.T, token string, md protoreflect.MethodDescriptor, req proto.Message) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	name := "/" + string(md.Parent().FullName()) + "/" + string(md.Name())
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	show := func(m proto.Message) {
		b, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
		for _, bytes := range allBytes(m.ProtoReflect()) { // which JSON shows in base64
			text.WriteString(bytes)
		}
	}
	if !md.IsStreamingServer() && !md.IsStreamingClient() {
		out := mt.New().Interface()
		err := f.rpc.Invoke(ctx, name, req, out)
		show(out)
		return text.String(), err
	}
	s, err := f.rpc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: md.IsStreamingClient()}, name)
	if err != nil {
		return "", err
	}
	if err := s.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	_ = s.CloseSend() // never fails in this process
	// A stream of changes does not end. All that it has to send comes at once.
	quiet := time.AfterFunc(50*time.Millisecond, cancel)
	defer quiet.Stop()
	for {
		out := mt.New().Interface()
		err := s.RecvMsg(out)
		if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		show(out)
		quiet.Reset(150 * time.Millisecond)
	}
}

// allBytes returns the fields of bytes in a message.
func allBytes(m protoreflect.Message) (all []string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() == protoreflect.BytesKind && !fd.IsList() && !fd.IsMap():
			all = append(all, string(v.Bytes()))
		case fd.Message() != nil && !fd.IsList() && !fd.IsMap():
			all = append(all, allBytes(v.Message())...)
		}
		return true
	})
	return all
}

// watched returns the requests of streams of changes from their beginning.
func watched(md protoreflect.MethodDescriptor) []request {
	switch md.Name() {
	case "WatchEvents":
		return []request{{Message: &holdfastv1.WatchEventsRequest{Cursor: 1}}}
	case "WatchRuns":
		return []request{{Message: &holdfastv1.WatchRunsRequest{Cursor: 1}}}
	case "WatchServices":
		return []request{{Message: &holdfastv1.WatchServicesRequest{Cursor: 1}}}
	}
	return nil
}

// publicMethods returns the methods of holdfast.v1.
func publicMethods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				all = append(all, f.Services().Get(i).Methods().Get(j))
			}
		}
		return true
	})
	return all
}

// reads reports whether a method changes nothing.
func reads(md protoreflect.MethodDescriptor) bool {
	o, ok := md.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// TestWalls calls every method as each kind of caller of one tenant, with guesses of the other
// one's names in every field. No answer and no error contains anything of the other tenant or of
// the peers, and an error about a name of the other tenant is that about a name that does not
// exist.
func TestWalls(t *testing.T) {
	f := newFleet(t)
	before, calls, answers := f.Dump(), 0, map[string][]string{}
	for _, md := range publicMethods() {
		method, refused := string(md.Name()), map[string]bool{}
		for _, r := range append(requests(t, md), watched(md)...) {
			for _, kind := range slices.Sorted(maps.Keys(f.tokens)) {
				if refused[kind] {
					continue // by its role, whatever it asks
				}
				calls++
				text, err := f.ask(t, f.tokens[kind], md, proto.Clone(r.Message))
				if err != nil {
					st := status.Convert(err)
					text += fmt.Sprint(st.Code(), " ", st.Message(), st.Details())
					refused[kind] = strings.Contains(text, `reason:"ROLE"`)
				}
				if !bySender(method) {
					for _, leak := range leaks(text, r.sent...) {
						t.Errorf("%s by %s with %s: got %s", method, kind, r.sent, leak)
					}
				}
				if len(r.sent) > 0 && hides(method, r.path) {
					key := method + " by " + kind + " with " + r.path
					answers[key] = append(answers[key], strings.ReplaceAll(text, r.sent[0], "NAME"))
				}
				if !reads(md) && f.Dump() != before { // the next call meets the same fleet
					f = newFleet(t)
					before = f.Dump()
				}
			}
		}
	}
	for key, all := range answers {
		for _, answer := range all[:len(all)-1] {
			if none := all[len(all)-1]; answer != none {
				t.Errorf("%s tells what exists:\n%.300s\nfor a name of the other tenant, and for one of nobody\n%.300s",
					key, answer, none)
				break
			}
		}
	}
	if calls < 500 {
		t.Errorf("made %d calls, too few to prove anything", calls)
	}
}

// TestWallsOfRoutes asks every route and page of the HTTP APIs in the same way.
func TestWallsOfRoutes(t *testing.T) {
	f := newFleet(t)
	before, asked := f.Dump(), 0
	names := func(o tenant, machine, run string) *strings.Replacer {
		return strings.NewReplacer(theMachine, machine, "/other/", "/"+machine+"/", theRun, run, theMAC, o.macOf("01"),
			"/v2/pools/gpu", "/v2/pools/"+o.pool(), `"pool_name":"gpu"`, `"pool_name":"`+o.pool()+`"`,
			`"pool_id":"gpu"`, `"pool_id":"`+o.pool()+`"`, "of-gpu", o.provider(), "/waves/w/", "/waves/"+o.wave()+"/",
			"/waves/canceled/", "/waves/"+o.wave()+"/", theService, markedService, "?q=m", "?q="+machine)
	}
	all := ways()
	for _, r := range f.mux.Routes() {
		if strings.HasSuffix(r.Pattern, "/{$}") {
			all[r.Pattern] = way{path: strings.TrimSuffix(strings.SplitN(r.Pattern, " ", 2)[1], "{$}")}
		}
		if strings.Contains(r.Pattern, " /v1/") {
			continue // a method, which TestWalls calls
		}
		if strings.HasSuffix(r.Pattern, " /api/v1/boot") {
			continue // see bySender
		}
		about, ok := all[r.Pattern]
		if !ok {
			t.Errorf("%s: this test does not know how to ask it: add it to ways", r.Pattern)
			continue
		}
		refused := map[string]bool{}
		for _, n := range []*strings.Replacer{
			names(foreign, foreign.machine(), foreign.run()), names(foreign, foreign.busy(), foreign.activeRun()),
			names(own, own.machine(), own.run()), names(own, reused, "run-reused-"+foreign.name),
		} {
			path, body := n.Replace(about.path), n.Replace(about.body)
			for _, kind := range slices.Sorted(maps.Keys(f.tokens)) {
				if refused[kind] {
					continue // by its role, whatever it asks
				}
				asked++
				w := send(t, f.Lab, r.Pattern, path, body, "=Bearer "+f.tokens[kind])
				refused[kind] = w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "this needs")
				sent := []string{path, body, foreign.machine(), foreign.run(), foreign.busy(), foreign.activeRun(), foreign.wave(),
					foreign.macOf("01"), foreign.provider(), foreign.pool(), "run-reused-" + foreign.name}
				if strings.Contains(path+body, own.name) || !strings.Contains(path+body, foreign.name) {
					sent = []string{path, body} // nothing foreign was sent
				}
				for _, leak := range leaks(w.Body.String()+fmt.Sprint(w.Header()), sent...) {
					t.Errorf("%s by %s: %s answered %d with %s", r.Pattern, kind, path, w.Code, leak)
				}
				if !strings.HasPrefix(r.Pattern, "GET ") && f.Dump() != before {
					f = newFleet(t)
					before = f.Dump()
				}
			}
		}
	}
	if asked < 500 {
		t.Errorf("made %d requests, too few to prove anything", asked)
	}
}
