"""Starts ministack with five things as AWS has them that version 1.5.33 has not:

- a function from an image runs: its calls go to BRIDGE, with the function's configuration and its role's credentials,
  and the name of an error comes back with it;
- an alarm may be one of metric math: it is kept as an alarm of its first metric;
- transport counts as secure, as the policies of buckets and queues want it;
- the batch calls of SQS are allowed by the actions of single ones;
- a repository of images that is looked for by its name is that of a policy.
"""
import json
import os
import secrets
import sys
import threading
import time
import urllib.request

from ministack import app
from ministack.core import iam_actions
from ministack.core.responses import get_region
from ministack.services import lambda_svc, sts
from ministack.services.cloudformation import provisioners


def credentials_of(role_arn):
    """A session of the role, as Lambda assumes it: with a name that the service chooses."""
    account, role = role_arn.split(":")[4], role_arn.split("/")[-1]
    key, secret, token = "ASIA" + secrets.token_hex(8).upper(), secrets.token_hex(20), secrets.token_hex(40)
    sts.register_session(key, {
        "Arn": f"arn:aws:sts::{account}:assumed-role/{role}/function",
        "UserId": "AROAFUNCTION:function",
        "SecretAccessKey": secret,
        "SessionToken": token,
        "Expiration": time.time() + 3600,
        "AccountId": account,
        "PrincipalType": "AssumedRole",
    })
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}


def run_image(func, event, request_id):
    config = func.get("config") or func
    call = {
        "config": config,
        "event": event,
        "requestId": request_id,
        "credentials": credentials_of(config["Role"]),
        "region": get_region(),
    }
    body = json.dumps(call, default=str).encode()
    with urllib.request.urlopen(urllib.request.Request(os.environ["BRIDGE"], body), timeout=1000) as response:
        answer = json.load(response)
    return {"body": answer["body"], "error": answer["failed"]}


lambda_svc._execute_function_docker = run_image

alarm_of = provisioners._cw_metric_alarm_record


def plain_alarm_of(name, props):
    first = next((one["MetricStat"] for one in props.pop("Metrics", []) if "MetricStat" in one), None)
    if first is not None:
        props = {**props, **first["Metric"], "Period": first["Period"], "Statistic": "Sum"}
    return alarm_of(name, props)


provisioners._cw_metric_alarm_record = plain_alarm_of

pin_origin = app.pin_request_origin
app.pin_request_origin = lambda address, is_secure: pin_origin(address, True)

action_of = iam_actions.extract_iam_action


def single_action_of(*request):
    action = action_of(*request)
    return action.removesuffix("Batch") if action is not None and action.startswith("sqs:") else action


iam_actions.extract_iam_action = single_action_of

arn_of = iam_actions.extract_resource_arn


def repository_arn_of(service, method, path, headers, body, parameters, region, account):
    names = json.loads(body or "{}").get("repositoryNames", []) if service == "ecr" else []
    if names:
        return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}"
    return arn_of(service, method, path, headers, body, parameters, region, account)


iam_actions.extract_resource_arn = repository_arn_of

def end_with_parent():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
app.main()
