"""Between the events of the launch and the services and topics of a lifecycle node."""

import asyncio
from concurrent.futures import Future

from launch.actions import OpaqueFunction
from launch.event_handler import EventHandler
from launch.logging import get_logger
from lifecycle_msgs.msg import TransitionEvent
from lifecycle_msgs.srv import ChangeState as ChangeStateService
from lifecycle_msgs.srv import GetState

from ..events.lifecycle import ChangeState, StateTransition
from ..ros_adapters import get_ros_adapter
from .lifecycle_states import TRANSITION_TARGETS

# How long the report of a transition that has succeeded may take. It is lost if
# the node had not yet discovered this subscription when it made the transition;
# then the launch reports it itself rather than waiting for ever.
REPORT_TIMEOUT = 1.0
POLL_PERIOD = 0.02
# An answer is lost if the node has not yet discovered this client when it gives it.
# After so long the node is asked for its state instead, and again and again; if it
# still is where it was, the request was lost, and is sent once more.
ANSWER_TIMEOUT = 5.0
ATTEMPTS = 5


class LifecycleEventManager:
    """Turns ChangeState events into service calls and reports into StateTransition events."""

    def __init__(self, lifecycle_node):
        self.__action = lifecycle_node
        self.__logger = get_logger(__name__)
        self.__client = None
        self.__state_client = None
        self.__subscription = None
        self.__last_goal_state = None

    @property
    def node_name(self):
        return self.__action.node_name

    def setup_lifecycle_manager(self, context):
        adapter = get_ros_adapter(context)
        loop = context.asyncio_loop

        def on_report(msg):
            try:
                loop.call_soon_threadsafe(self.__report, context, msg)
            except RuntimeError:  # the launch is over
                pass

        def create_entities():
            self.__subscription = adapter.ros_node.create_subscription(
                TransitionEvent, f"{self.node_name}/transition_event", on_report, 10
            )
            self.__client = adapter.ros_node.create_client(ChangeStateService, f"{self.node_name}/change_state")

        adapter.run_in_spin_thread(create_entities)
        context.register_event_handler(
            EventHandler(
                matcher=lambda event: isinstance(event, ChangeState) and event.lifecycle_node_matcher(self.__action),
                entities=OpaqueFunction(function=self.__on_change_state),
            )
        )

    def __report(self, context, msg):
        self.__last_goal_state = msg.goal_state.label
        context.emit_event_sync(StateTransition(action=self.__action, msg=msg))

    def __on_change_state(self, context):
        transition_id = context.locals.event.transition_id
        context.add_completion_future(context.asyncio_loop.create_task(self.__change_state(context, transition_id)))

    async def __change_state(self, context, transition_id):
        transition = ChangeState.valid_transitions[transition_id]
        if not await self.__wait(
            context,
            "service",
            lambda: (
                not context.is_shutdown  # after which the client is destroyed
                and self.__client is not None
                and self.__client.service_is_ready()
            ),
        ):
            return
        request = ChangeStateService.Request()
        request.transition.id = transition_id
        responses = [_ask(context, self.__client, request)]
        if not await self.__wait(
            context,
            "service response",
            self.__answered(context, responses, request, TRANSITION_TARGETS.get(transition_id)),
        ):
            return
        answers = [response.result() for response in responses if response.done()]
        if answers and not any(answer.success for answer in answers):
            self.__logger.error(f"Failed to make transition '{transition}' for LifecycleNode '{self.node_name}'")
            return
        await self.__ensure_report(context, transition_id)

    def __answered(self, context, responses, request, target):
        """Whether a transition was answered, or the node's state shows that it was made."""
        loop = context.asyncio_loop
        due, asked = loop.time() + ANSWER_TIMEOUT, None

        def create_client():  # only now: one more client slows the discovery of all others
            self.__state_client = get_ros_adapter(context).ros_node.create_client(
                GetState, f"{self.node_name}/get_state"
            )

        def condition():
            nonlocal due, asked
            if any(response.done() for response in responses):
                return True
            if asked is not None and asked.done():
                state, asked = asked.result().current_state.label, None
                if target is not None and state == target.goal_state:
                    return True
                if target is not None and state == target.origin and len(responses) < ATTEMPTS:
                    responses.append(_ask(context, self.__client, request))
            if loop.time() > due and not context.is_shutdown:
                due = loop.time() + ANSWER_TIMEOUT
                if self.__state_client is None:
                    get_ros_adapter(context).run_in_spin_thread(create_client)
                elif self.__state_client.service_is_ready():
                    asked = _ask(context, self.__state_client, GetState.Request())
            return False

        return condition

    async def __wait(self, context, what, condition):
        """Return True once the condition holds, False if the launch or the process ends before."""
        while not condition():
            if self.__is_over(context):
                break
            await asyncio.sleep(POLL_PERIOD)
        else:
            return True
        reason = "shutdown" if context.is_shutdown else "the end of the node's process"
        self.__logger.warning(f"Abandoning wait for the '{self.node_name}/change_state' {what}, due to {reason}.")
        return False

    async def __ensure_report(self, context, transition_id):
        target = TRANSITION_TARGETS.get(transition_id)
        deadline = context.asyncio_loop.time() + REPORT_TIMEOUT
        while target is not None and self.__last_goal_state != target.goal_state:
            if self.__is_over(context):
                return
            if context.asyncio_loop.time() > deadline:
                msg = TransitionEvent()  # like rcl's, which fills in the states only
                msg.start_state.label = target.start_state
                msg.goal_state.label = target.goal_state
                self.__report(context, msg)
                return
            await asyncio.sleep(POLL_PERIOD)

    def __is_over(self, context):
        return context.is_shutdown or self.__action.return_code is not None


def _ask(context, client, request):
    """Return the future of an answer.

    The request is sent by the thread that reads the answers: rclpy drops an answer that comes before its request is noted.
    """
    answer = Future()
    get_ros_adapter(context).run_in_spin_thread(
        lambda: client.call_async(request).add_done_callback(lambda future: answer.set_result(future.result()))
    )
    return answer
