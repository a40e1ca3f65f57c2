//go:build !unix

package ministack

import "os/exec"

func detachProcess(*exec.Cmd) {}
