//go:build !linux

package cloud

import "os/exec"

func detachProcess(*exec.Cmd) {}
