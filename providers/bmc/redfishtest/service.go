// Package redfishtest is a Redfish service for tests. Its BMC and machines exist in memory, keep
// their state, and misbehave like real ones on request (Quirks).
//
// It follows the DMTF's Redfish specification (DSP0266) and schemas (DSP8010): ServiceRoot,
// SessionService, ComputerSystem, Manager, Chassis, VirtualMedia, LogService, EthernetInterface,
// Processor, Memory, Storage. It owns no hardware and knows nothing of Holdfast.
package redfishtest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is the configuration of a service.
type Config struct {
	User         string        // default admin
	Password     string        // default secret
	Systems      []string      // ids; default "1"
	Manufacturer string        // default Contoso
	PowerTime    time.Duration // from a press until it shows
	PostTime     time.Duration // from power on until the firmware boots a device
	BootTime     time.Duration // from there until the operating system runs
	ResetTime    time.Duration // that the BMC is away during a reset
	Off          bool          // machines are off at first
	Slots        []Slot        // virtual drives of each machine; default one for floppies, one for CDs
	Style        Style

	// Chassis has the machines outside of the service, by system. The times and Off do not apply
	// to them.
	Chassis map[string]Chassis
}

// Slot is a virtual drive.
type Slot struct {
	ID    string
	Types []string // of media
	Patch bool     // it has no actions and is changed by PATCH
	Local bool     // it accepts no URL
	Hides bool     // it shows InsertMedia only while it is empty
}

// Quirks describes the misbehavior of a service. It can be changed at any time.
type Quirks struct {
	SessionLimit  int           // 503 for any session beyond it
	LimitStatus   int           // instead of that 503
	LockAfter     int           // after that many refused logins, good ones are refused too
	InPOST        bool          // 409 for changes while a machine is in POST
	Ignore        []string      // accepted without effect: reset, boot, media
	HangAfter     int           // requests that are served before all others hang; 0 is off
	Hang          bool          // all requests hang
	HangSystems   bool          // requests for machines hang; those for the BMC itself do not
	Drop          int           // every n-th request is served, but its connection breaks before the answer
	DropLogins    int           // the same for that many logins
	Busy          int           // every n-th request is refused: 503, temporarily unavailable
	DropPresses   int           // that many presses are done, but their connections break before the answer
	RebootPresses int           // that many presses are done, but the BMC restarts instead of answering
	OwnETag       bool          // 412 for its own ETag
	RefuseMode    bool          // 400 for any BootSourceOverrideMode
	NoMode        bool          // shows no BootSourceOverrideMode
	UEFIOnly      bool          // 400 for legacy boot
	NoSessions    bool          // basic authentication only
	OffIsAnError  bool          // 400 if the machine is already off (or on)
	ResetTypes    []string      // allowed values; default On ForceOff GracefulShutdown ForceRestart
	ActionInfo    bool          // shows them in an ActionInfo only
	TypesByState  bool          // shows and accepts only those that fit the power state
	Latency       time.Duration // of every answer
	ExpireSession bool          // every session ends after its next request
	KeepSessions  int           // that many requests to end a session are refused: 503
	TwoLogs       bool          // the event log is two log services
	MediaStrict   bool          // 400 for InsertMedia with Inserted or WriteProtected
	MediaSpelling bool          // shows URLs of media as HOST:80 in capitals, followed by a blank
	NewPassword   bool          // 403 for logins with a good password, until it is changed
	MediaNeeds    []string      // 400 for InsertMedia without these parameters
	Missing       []string      // paths that return 404, as while a BMC starts
	NoSystems     bool          // the collection of systems is empty, as while a BMC starts
	ManagerLog    bool          // the event log is below the manager, not the system (Dell)

	// Logins.
	BusyLogins      int    // that many logins are refused: 503 without a body
	LoginStatus     int    // logins are refused with this status
	LoginCode       string // and this code
	SessionLocation string // of the session: "id" as the id alone, "body" as the id in the body, "none", or "no token"

	// Oddities: see Modes.
	Odd        []string // ways in which answers are altered
	Forbidden  []string // last elements of paths that return 403
	LateSystem int      // that many requests for a machine return 404

	OtherLogs []string // ids of further log services, each with the same entries

	ShownResetTypes []string // shown in place of the accepted ones, which an ActionInfo has
	ModeStatus      int      // of RefuseMode; default 400
	Progress        string   // the boot progress of every machine, which never changes

	// Refused changes: the reply to a request whose method and path end in one of these, such as
	// "POST ComputerSystem.Reset" or "PATCH Systems/1".
	Refuse map[string]Refusal
}

// Refusal is an error response to a change.
type Refusal struct {
	Status int
	Code   string // empty: a response without a body
	Text   string
	Times  int // that many times; zero: always
}

// Effect is an accepted change.
type Effect struct {
	System  string
	Name    string // reset, boot, media_insert, media_eject, identify, bmc_reset
	Detail  string
	At      time.Time
	Ignored bool // reset, boot: accepted without effect
}

// Service is one BMC. It is safe for concurrent use.
type Service struct {
	cfg  Config
	stop chan struct{}

	mu        sync.Mutex
	quirks    Quirks
	systems   []*system
	sessions  map[string]*session // by id
	next      int                 // id of the next session
	served    int
	refused   int // consecutive refused logins
	logins    int // all attempts
	effects   []Effect
	tasks     []task
	failTasks string
	gone      time.Time // end of a restart of the BMC
	whole     bool      // see Healthy
	broken    map[Part]bool
	swapped   bool   // see SwapSleds
	inFlight  [2]int // reads and writes under way
	most      [2]int
}

// New returns a service.
func New(c Config) *Service {
	c.User = cmp.Or(c.User, "admin")
	c.Password = cmp.Or(c.Password, "secret")
	c.Manufacturer = cmp.Or(c.Manufacturer, "Contoso")
	if len(c.Systems) == 0 {
		c.Systems = []string{"1"}
	}
	if len(c.Slots) == 0 {
		c.Slots = []Slot{
			{ID: "Floppy1", Types: []string{"Floppy", "USBStick"}},
			{ID: "Cd1", Types: []string{"CD", "DVD"}},
		}
	}
	s := &Service{cfg: c, stop: make(chan struct{}), sessions: map[string]*session{}}
	for i, id := range c.Systems {
		s.systems = append(s.systems, newSystem(s, id, i))
	}
	return s
}

// Close releases all requests that hang.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
}

// Set changes the quirks.
func (s *Service) Set(change func(*Quirks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.quirks)
	if s.quirks.HangAfter > 0 {
		s.quirks.HangAfter += s.served
	}
}

// Sessions returns the number of open sessions.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Logins returns the number of attempted logins, good or bad.
func (s *Service) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Served returns the number of requests.
func (s *Service) Served() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Most returns the maximum numbers of concurrent reads and writes.
func (s *Service) Most() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[0], s.most[1]
}

// Effects returns the accepted changes in order; only those with the name, if it is not empty.
func (s *Service) Effects(name string) []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.effects), func(e Effect) bool { return name != "" && e.Name != name })
}

// Systems returns the ids of the machines.
func (s *Service) Systems() []string { return slices.Clone(s.cfg.Systems) }

// Power reports whether a machine is on.
func (s *Service) Power(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.advance(time.Now())
	return m.on
}

// Booted returns the target of the override at the last boot of a machine, or "".
func (s *Service) Booted(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.advance(time.Now())
	return m.booted
}

// Log adds an entry to the event log of a machine.
func (s *Service) Log(id, severity, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	m.log = append(m.log, entry{time.Now(), severity, message})
}

func (s *Service) find(id string) *system {
	for _, m := range s.systems {
		if m.id == id {
			return m
		}
	}
	return nil
}

// fault is an error response (DSP0266 §8.6).
type fault struct {
	status int
	code   string
	text   string
	bare   bool // without a body
}

func refuse(status int, code, text string) *fault {
	return &fault{status: status, code: code, text: text}
}

// refusal returns the response of a quirk to a request, or nil. The lock is held.
func (s *Service) refusal(r *http.Request) *fault {
	name := r.Method + " " + strings.TrimRight(r.URL.Path, "/")
	for what, f := range s.quirks.Refuse {
		method, end, _ := strings.Cut(what, " ")
		if !strings.HasPrefix(name, method+" ") || !strings.HasSuffix(name, "/"+end) || f.Times < 0 {
			continue
		}
		if f.Times == 1 {
			f.Times = -1
			s.quirks.Refuse[what] = f
		} else if f.Times > 1 {
			f.Times--
			s.quirks.Refuse[what] = f
		}
		return &fault{status: f.Status, code: f.Code, text: f.Text, bare: f.Code == ""}
	}
	return nil
}

// Handler serves the API.
func (s *Service) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		if err := d.Decode(&body); err != nil {
			s.write(
				w,
				http.StatusBadRequest,
				nil,
				refuse(http.StatusBadRequest, "MalformedJSON", "The request body is not JSON."),
			)
			return
		}
	}
	kind := 0
	if r.Method != http.MethodGet {
		kind = 1
	}
	s.mu.Lock()
	s.served++
	n, q, gone := s.served, s.quirks, time.Now().Before(s.gone)
	s.inFlight[kind]++
	s.most[kind] = max(s.most[kind], s.inFlight[kind])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight[kind]--
	}()
	if q.Latency > 0 {
		s.wait(r, time.After(q.Latency))
	}
	if q.Hang || q.HangAfter > 0 && n > q.HangAfter ||
		q.HangSystems && strings.HasPrefix(r.URL.Path, "/redfish/v1/Systems") {
		s.wait(r, nil)
		panic(http.ErrAbortHandler)
	}
	if gone {
		panic(http.ErrAbortHandler)
	}
	if q.Busy > 0 && n%q.Busy == 0 {
		s.write(w, http.StatusServiceUnavailable, nil, busy())
		return
	}
	if path := r.URL.Path; q.isOdd(OddSlashes) && r.Method == http.MethodGet && !strings.HasSuffix(path, "/") {
		r.URL.Path += "/"
		w.Header().Set("Location", r.URL.RequestURI())
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	s.mu.Lock()
	res, err := s.answer(r, body)
	if res != nil && err == nil {
		res.body = s.alter(r, res.body)
	}
	lost := q.Drop > 0 && n%q.Drop == 0 || s.interrupted(res)
	if res != nil && res.login && s.quirks.DropLogins > 0 {
		s.quirks.DropLogins--
		lost = true
	}
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		s.write(w, err.status, nil, err)
		return
	}
	for k, v := range res.header {
		if k == "Location" && s.cfg.Style.FullLocations {
			v = "http://" + r.Host + v
		}
		w.Header().Set(k, v)
	}
	s.write(w, res.status, res.body, nil)
}

// interrupted reports whether the quirks lose the answer to a press, and restarts the BMC if they
// say so. The lock is held.
func (s *Service) interrupted(res *result) bool {
	if res == nil || !res.press {
		return false
	}
	if s.quirks.DropPresses > 0 {
		s.quirks.DropPresses--
		return true
	}
	if s.quirks.RebootPresses == 0 {
		return false
	}
	s.quirks.RebootPresses--
	clear(s.sessions)
	s.gone = time.Now().Add(s.cfg.ResetTime)
	return true
}

func (s *Service) wait(r *http.Request, c <-chan time.Time) {
	select {
	case <-c:
	case <-r.Context().Done():
	case <-s.stop:
	}
}

// result is a successful response.
type result struct {
	status int
	header map[string]string
	body   any
	login  bool
	press  bool // of a power button
}

func ok(body any) *result { return &result{status: http.StatusOK, body: body} }

func (s *Service) write(w http.ResponseWriter, status int, body any, f *fault) {
	w.Header().Set("OData-Version", "4.0")
	if f != nil && f.bare {
		w.WriteHeader(status)
		return
	}
	s.mu.Lock()
	html, stray, broken := s.quirks.isOdd(OddHTML), s.quirks.isOdd(OddBytes), s.quirks.isOdd(OddJSON)
	s.mu.Unlock()
	if f != nil && html {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><body><h1>"+http.StatusText(status)+"</h1></body></html>")
		return
	}
	if f != nil {
		id := s.messageID(f.code)
		info := map[string]any{"MessageId": id, "Message": f.text, "Severity": "Critical"}
		code, text := id, f.text
		if s.cfg.Style.NoMessages {
			code, text = "iLO.0.10.ExtendedInfo", "See @Message.ExtendedInfo for more information."
			info = map[string]any{"MessageId": id, "MessageArgs": []any{f.text}}
		}
		body = map[string]any{
			"error": map[string]any{"code": code, "message": text, "@Message.ExtendedInfo": []any{info}},
		}
	}
	if body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b, err := json.Marshal(body)
	if err == nil && s.cfg.Style.Slashes {
		var plain any
		if err = json.Unmarshal(b, &plain); err == nil {
			b, err = json.Marshal(slashed(plain))
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if broken {
		b = brokenJSON(b)
	}
	if stray {
		b = strayed(b)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// answer serves a request. The lock is held.
func (s *Service) answer(r *http.Request, body map[string]any) (*result, *fault) {
	for _, m := range s.systems {
		m.advance(time.Now())
		if m.chassis != nil {
			if f := m.sync(); f != nil {
				return nil, f
			}
		}
	}
	path := strings.TrimRight(r.URL.Path, "/")
	if slices.Contains(s.quirks.Missing, path) {
		return nil, notFound(path)
	}
	switch {
	case path == "/redfish" && r.Method == http.MethodGet:
		return ok(map[string]string{"v1": "/redfish/v1/"}), nil
	case path == "/redfish/v1" && r.Method == http.MethodGet:
		return ok(s.rootBody()), nil
	case path == sessionsPath && r.Method == http.MethodPost && !s.quirks.NoSessions:
		return s.logIn(body, r.RemoteAddr)
	}
	if f := s.authenticate(r); f != nil {
		return nil, f
	}
	if f := s.refusal(r); f != nil {
		return nil, f
	}
	if res, f := s.hidden(r, path); res != nil || f != nil {
		return res, f
	}
	rest, under := strings.CutPrefix(path, "/redfish/v1/")
	if !under {
		return nil, notFound(path)
	}
	parts := strings.Split(rest, "/")
	switch parts[0] {
	case "SessionService":
		return s.sessionService(r, parts[1:])
	case "Systems":
		if len(parts) == 1 && r.Method == http.MethodGet {
			ids := slices.Concat(s.style().Others, s.cfg.Systems)
			if s.quirks.NoSystems {
				ids = nil
			}
			return ok(s.collection("Systems", "ComputerSystem", ids...)), nil
		}
		if m := s.find(at(parts, 1)); m != nil {
			return m.answer(r, parts[2:], body)
		}
		id := at(parts, 1)
		if len(parts) == 2 && r.Method == http.MethodGet && slices.Contains(s.style().Others, id) {
			return ok(map[string]any{
				"@odata.id":    path,
				"@odata.type":  "#ComputerSystem.v1_23_0.ComputerSystem",
				"Id":           id,
				"Name":         id,
				"SerialNumber": "BASEBOARD",
				"SystemType":   "Physical",
				"Manufacturer": s.cfg.Manufacturer,
				"PowerState":   "On",
				"Status":       health("Enabled", "OK"),
			}), nil
		}
	case "Managers":
		return s.manager(r, parts[1:], body)
	case "Chassis":
		return s.chassis(r, parts[1:])
	case "TaskService":
		return s.taskService(r, parts[1:])
	}
	return nil, notFound(path)
}

func at(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

func notFound(path string) *fault {
	return refuse(http.StatusNotFound, "ResourceMissingAtURI", "There is no resource at "+path+".")
}

func notAllowed() *fault {
	return refuse(http.StatusMethodNotAllowed, "OperationNotAllowed", "The resource does not take this method.")
}

// SwapSleds swaps the machines of the first two systems. Serial numbers move, paths do not.
func (s *Service) SwapSleds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swapped = !s.swapped
}

// RenameSlot renames a virtual drive of each machine, as a firmware update may.
func (s *Service) RenameSlot(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Slots = slices.Clone(s.cfg.Slots)
	for i := range s.cfg.Slots {
		if s.cfg.Slots[i].ID == from {
			s.cfg.Slots[i].ID = to
		}
	}
	for _, id := range s.cfg.Systems {
		m := s.find(id)
		m.slots[to] = m.slots[from]
		m.slots[to].ID = to
		delete(m.slots, from)
	}
}

// sled returns the number of the machine in a place.
func (s *Service) sled(place int) int {
	if s.swapped && place < 2 {
		return 1 - place
	}
	return place
}

func busy() *fault {
	return refuse(http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", "The service is busy: try again.")
}
