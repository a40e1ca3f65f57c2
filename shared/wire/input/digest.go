package input

import (
	"encoding/json"

	"berth/shared/cluster"
)

// DigestParameters returns 32 hex digits that are the same for the same parameters. They are stored
// with a client token, so that the token is recognized with other parameters. in must not contain
// the token.
func DigestParameters(in any) (string, error) {
	canonical, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return cluster.Digest(string(canonical)), nil
}
