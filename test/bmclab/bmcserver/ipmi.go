package main

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// bootNames maps ipmi_sim's names of boot devices to those of package chassis.
func bootNames() map[string]string {
	return map[string]string{"none": "none", "pxe": "net", "default": "disk", "cdrom": "cd"}
}

// ipmi carries out a request of ipmi_sim (ipmi_lan(5); the values were found by
// observation).
func ipmi(socket, verb string, words []string) error {
	c := chassis.Dial(socket, "ipmi")
	if verb == "get" {
		for _, name := range words {
			st, err := c.State()
			if err != nil {
				return err
			}
			switch name {
			case "power":
				power := 0
				if st.On {
					power = 1
				}
				fmt.Printf("power:%d\n", power)
			case "boot":
				for sim, ours := range bootNames() {
					if ours == st.Boot.Target {
						fmt.Printf("boot:%s\n", sim)
					}
				}
			default:
				return fmt.Errorf("get %q: unknown name", name)
			}
		}
		return nil
	}
	for i := 0; i+1 < len(words); i += 2 {
		if err := set(c, words[i], words[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func set(c *chassis.Client, name, value string) error {
	switch name {
	case "power":
		if value == "1" {
			return c.Press(chassis.On)
		}
		return c.Press(chassis.Off)
	case "shutdown":
		return c.Press(chassis.Soft)
	case "reset":
		return c.Press(chassis.Reset)
	case "boot":
		target, known := bootNames()[value]
		if !known {
			return fmt.Errorf("boot from %q: unknown device", value)
		}
		return c.SetBoot(chassis.Boot{Target: target})
	case "identify":
		return nil // there is no light
	}
	return fmt.Errorf("set %q: unknown name", name)
}
