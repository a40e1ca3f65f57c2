package input

import (
	"encoding/json"

	"berth/shared/cluster"
)

// DigestParameters tells the parameters of one call from those of another; the token must not be
// part of in.
func DigestParameters(in any) (string, error) {
	canonical, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return cluster.Digest(string(canonical)), nil
}
