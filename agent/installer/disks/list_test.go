package disks

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

func TestList(t *testing.T) {
	root := fstest.MapFS{}
	for name, text := range map[string]string{
		"sda/size": "15628053168\n", "sda/device/scsi_device/0:0:0:0/uevent": "",
		"sdb/device/scsi_device/1:0:0:0/uevent": "", "nvme0n1/device/transport": "pcie\n", "sda/queue/rotational": "1\n",
		"sda/ro": "0\n", "sda/removable": "0\n",
		"sda/device/model": "ST8000NM000A    \n", "sda/device/vpd_pg80": "\x00\x80\x00\x08ZL2A1   trailing",
		"sda/device/wwid": "naa.5000c500c8a1b2c3\n",
		"nvme0n1/size":    "1875385008\n", "nvme0n1/queue/rotational": "0\n", "nvme0n1/wwid": "eui.0025388a91b0\n",
		"nvme0n1/device/model": "SAMSUNG MZQLB960HAJR-00007              \n", "nvme0n1/device/serial": "S4EVNX0M      \n",
		"nvme0c0n1/size": "1875385008\n", "nvme0c0n1/hidden": "1\n",
		"vda/size": "2048\n", "vda/serial": "disk-1", "vda/ro": "1\n", "vda/queue/rotational": "1\n",
		"sdb/size": "0\n", "sdb/removable": "1\n", "sdb/device/vpd_pg80": "\x00",
		"loop0/size": "2048\n", "dm-0/size": "2048\n", "md127/size": "2048\n", "sr0/size": "2048\n",
		"mmcblk0boot0/size": "8\n", "mmcblk0/size": "62333952\n",
	} {
		root["sys/block/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	root["sys/class/scsi_host/host0/proc_name"] = &fstest.MapFile{Data: []byte("ahci\n")}
	root["sys/class/scsi_host/host1/proc_name"] = &fstest.MapFile{Data: []byte("usb-storage\n")}
	want := []diskrule.Disk{
		{Name: "mmcblk0", SizeBytes: 31914983424},
		{Name: "nvme0n1", Serial: "S4EVNX0M", WWN: "eui.0025388a91b0", Model: "SAMSUNG MZQLB960HAJR-00007",
			SizeBytes: 960197124096},
		{Name: "sda", Serial: "ZL2A1", WWN: "naa.5000c500c8a1b2c3", Model: "ST8000NM000A", SizeBytes: 8001563222016,
			Rotational: true},
		{Name: "sdb", Removable: true, Remote: "driver usb-storage"},
		{Name: "vda", Serial: "disk-1", SizeBytes: 1 << 20, Rotational: true, ReadOnly: true},
	}
	got, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	if _, err := List(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without sysfs: got %v, want a missing directory", err)
	}
}
