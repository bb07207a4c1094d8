package disks

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// TestRemote checks that the installer treats the same disks as local as the erase script of the
// SSH provider.
func TestRemote(t *testing.T) {
	table, err := os.ReadFile("../../../providers/ssh/testdata/local-disks.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for l := range strings.Lines(string(table)) {
		fields := strings.Split(strings.TrimSpace(l), "; ")
		if len(fields) != 3 {
			continue
		}
		cases++
		name, how, want := fields[0], fields[1], fields[2]
		root := fstest.MapFS{}
		put := func(path, text string) { root["sys/"+path] = &fstest.MapFile{Data: []byte(text + "\n")} }
		put("block/"+name+"/size", "2048")
		transport, multipath := strings.CutPrefix(how, "multipath/")
		driver, initiator := strings.CutSuffix(how, "+initiator")
		switch {
		case multipath:
			put("block/"+name+"/device/nvme7/transport", transport)
		case strings.HasPrefix(name, "nvme") && how != "":
			put("block/"+name+"/device/transport", how)
		case how != "":
			put("block/"+name+"/device/scsi_device/3:0:1:0/uevent", "")
			put("class/scsi_host/host3/proc_name", driver)
			put("class/sas_device/end_device-3:0/initiator_port_protocols", "none")
		}
		if initiator {
			put("class/sas_device/end_device-3:1/initiator_port_protocols", "smp, stp, ssp")
		}
		got := remote(root, name)
		if got == "" {
			got = "local"
		}
		if got != want {
			t.Errorf("%s with %q: got %q, want %q", name, how, got, want)
		}
	}
	if cases < 20 {
		t.Errorf("table: got %d disks, want at least 20", cases)
	}
}

// TestLargestIsLocal checks that a LUN of a storage network is not chosen, and that the error names
// it.
func TestLargestIsLocal(t *testing.T) {
	root := fstest.MapFS{}
	for i, driver := range []string{"ahci", "lpfc"} {
		name := "sd" + string(rune('a'+i))
		for path, text := range map[string]string{
			"block/" + name + "/size": fmt.Sprint(1 << (21 + i)), fmt.Sprintf("block/%s/device/scsi_device/%d:0:0:0/uevent",
				name, i): "",
			fmt.Sprintf("class/scsi_host/host%d/proc_name", i): driver,
		} {
			root["sys/"+path] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	all, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := diskrule.Parse("by=largest")
	if err != nil {
		t.Fatal(err)
	}
	got, err := rule.Choose(all)
	if err != nil || got.Name != "sda" {
		t.Errorf("by=largest: got %q, %v, want sda", got.Name, err)
	}
	rule, err = diskrule.Parse("name=sdb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rule.Choose(all); err == nil || !strings.Contains(err.Error(), "sdb (") ||
		!strings.Contains(err.Error(), "not known to be local (driver lpfc)") {
		t.Errorf("name=sdb: got %v, want an error that sdb is not known to be local", err)
	}
}
