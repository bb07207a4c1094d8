package netbootapi

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// order is the work order of an installer.
type order struct {
	MachineID      string    `json:"machine_id"`
	RunID          string    `json:"run_id"`
	Attempt        int32     `json:"attempt"`
	Image          image     `json:"image"`
	Disk           string    `json:"disk"`
	Wipe           bool      `json:"wipe"`
	Hostname       string    `json:"hostname"`
	CloudInit      cloudInit `json:"cloud_init"`
	AuthorizedKeys []string  `json:"authorized_keys"`
	ReportURL      string    `json:"report_url"`
	LogURL         string    `json:"log_url"`
	Servers        []string  `json:"servers"`
}

type image struct {
	Name        string `json:"name"`
	URL         string `json:"url"` // a path that is valid on every server
	SHA256      string `json:"sha256"`
	SizeBytes   int64  `json:"size_bytes"`
	Format      string `json:"format"`
	Compression string `json:"compression"`
}

type cloudInit struct {
	UserData      string `json:"user_data"`
	NetworkConfig string `json:"network_config"`
	MetaData      string `json:"meta_data"`
}

// order responds with the work order of the installer.
func (a *api) order(w http.ResponseWriter, r *http.Request) {
	t, ok := token(w, r)
	if !ok {
		return
	}
	o, err := a.rpc.GetWorkOrder(r.Context(), &holdfastv1.GetWorkOrderRequest{Token: t, Caller: a.callerOf(r)})
	if err != nil {
		fail(w, err)
		return
	}
	i := o.GetInstall()
	out := order{
		MachineID:      i.GetMachineId(),
		RunID:          i.GetRunId(),
		Attempt:        i.GetAttempt(),
		Disk:           i.GetDisk(),
		Wipe:           i.GetWipe(),
		Hostname:       o.GetHostname(),
		CloudInit:      cloudInit{UserData: i.GetCloudInit(), MetaData: metaData(i, o.GetHostname())},
		AuthorizedKeys: append([]string{}, o.GetAuthorizedKeys()...),
		ReportURL:      "/api/v1/install/report",
		LogURL:         "/api/v1/install/log",
		Servers:        a.servers(r, o.GetHttpAddrs()),
	}
	if i.GetImage() != "" {
		out.Image = image{
			Name:        i.GetImage(),
			URL:         "/images/" + i.GetImage() + "/disk",
			SHA256:      o.GetImageSha256(),
			SizeBytes:   o.GetImageSizeBytes(),
			Format:      o.GetImageFormat(),
			Compression: o.GetImageCompression(),
		}
	}
	httpjson.Write(w, http.StatusOK, out)
}

// metaData returns the meta-data of NoCloud. Each install has its own instance-id, so that
// cloud-init runs again.
func metaData(i *holdfastv1.Install, hostname string) string {
	quoted, _ := json.Marshal(hostname) // JSON is YAML
	return "instance-id: " + i.GetMachineId() + "-" + i.GetRunId() + "\nlocal-hostname: " + string(quoted) + "\n"
}

// servers returns the base URLs of all peers, this one first.
func (a *api) servers(r *http.Request, addrs []string) []string {
	own := baseOf(r)
	all := []string{own}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	for _, addr := range addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil && a.cfg.Port != "" {
			addr = net.JoinHostPort(host, a.cfg.Port) // the port of the listener for machines, the same on all peers
		}
		if u := scheme + addr; addr != "" && plainHost(addr) && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	return all
}

// report accepts a progress report of an installer.
func (a *api) report(w http.ResponseWriter, r *http.Request) {
	t, ok := token(w, r)
	if !ok {
		return
	}
	var in struct {
		Status    string          `json:"status"`
		Stage     string          `json:"stage"`
		Progress  *float64        `json:"progress"`
		Error     string          `json:"error"`
		HostKeys  []string        `json:"host_keys"`
		IPAddress string          `json:"ip_address"`
		Inventory json.RawMessage `json:"inventory"`
	}
	if bad := httpjson.Read(r, &in); bad != nil {
		httpjson.Write(w, bad.Status(), failure{bad.Message})
		return
	}
	req := &holdfastv1.ReportInstallRequest{
		Token:     t,
		Status:    in.Status,
		Detail:    in.Stage,
		Error:     in.Error,
		HostKeys:  in.HostKeys,
		IpAddress: in.IPAddress,
		Caller:    a.callerOf(r),
	}
	if in.Progress != nil {
		req.Progress, req.HasProgress = int32(min(max(*in.Progress, -1), 101)), true
	}
	req.Facts, req.Inventory = inventory(in.Inventory)
	i, err := a.rpc.ReportInstall(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	if in.Status != "progress" {
		a.log.Info("installer reported", "machine", i.GetMachineId(), "run", i.GetRunId(),
			"status", in.Status, "stage", in.Stage, "error", in.Error)
	}
	httpjson.Write(w, http.StatusOK, map[string]any{
		"success":    true,
		"machine_id": i.GetMachineId(),
		"stage":      stageName(i.GetStage()),
	})
}

// inventory reads the inventory that an installer reports. A malformed inventory is
// ignored, so that the report is still accepted.
func inventory(raw json.RawMessage) (*holdfastv1.NodeRecord, *holdfastv1.HardwareInventory) {
	var in struct {
		Vendor       string `json:"vendor"`
		Model        string `json:"model"`
		SerialNumber string `json:"serial_number"`
		SystemUUID   string `json:"system_uuid"`
		Arch         string `json:"arch"`
		BootMode     string `json:"boot_mode"`
		NICs         []struct {
			Name string `json:"name"`
			MAC  string `json:"mac"`
		} `json:"nics"`
		Disks []struct {
			Name      string `json:"name"`
			Serial    string `json:"serial"`
			Model     string `json:"model"`
			SizeBytes uint64 `json:"size_bytes"`
		} `json:"disks"`
	}
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &in) != nil {
		return nil, nil
	}
	facts := &holdfastv1.NodeRecord{
		Vendor:       line(in.Vendor),
		Model:        line(in.Model),
		SerialNumber: line(in.SerialNumber),
		SystemUuid:   line(in.SystemUUID),
		Arch:         line(in.Arch),
		BootMode:     line(in.BootMode),
	}
	h := &holdfastv1.HardwareInventory{
		Manufacturer: in.Vendor,
		Model:        in.Model,
		Serial:       in.SerialNumber,
		Uuid:         in.SystemUUID,
	}
	for _, n := range in.NICs {
		h.Parts = append(h.Parts, &holdfastv1.HardwarePart{Kind: "nic", Slot: n.Name, Mac: n.MAC})
	}
	for _, d := range in.Disks {
		h.Parts = append(h.Parts, &holdfastv1.HardwarePart{
			Kind:   "disk",
			Slot:   d.Name,
			Model:  d.Model,
			Serial: d.Serial,
			Bytes:  positive(int64(min(d.SizeBytes, 1<<62))),
		})
	}
	return facts, h
}

// line returns a text as a single line of at most 255 bytes.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, unicode.IsControl), " ")
	return strings.ToValidUTF8(s[:min(len(s), 255)], "")
}

// stageName returns the readable name of a stage, such as waiting-for-pxe.
func stageName(s holdfastv1.Install_Stage) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", "-")
}

// positive returns a quantity of which 0 means unknown.
func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}
