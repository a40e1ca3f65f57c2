package client

import (
	"context"

	"berth/shared/awsapi/parameter"
)

// Parameters returns the values of those of the parameters named that exist, from Systems Manager
// itself. The endpoint is found as for groups, with AWS_ENDPOINT_URL_SSM.
func (c *Client) Parameters(ctx context.Context, names []string) (map[string]string, error) {
	values, err := parameter.NewStore(c.target.ConfigFor("AWS_ENDPOINT_URL_SSM")).ReadParameters(ctx, names)
	if err != nil {
		return nil, c.awsError("GetParameters", err)
	}
	return values, nil
}
