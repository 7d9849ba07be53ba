// What the maker's C++ library finds on a bus: one line for each question, "name value ...". Usage: client PORT BAUD
//
// A question is asked again until it is answered: the library's time-outs are a few tens of milliseconds of wall clock.

#include "dynamixel_sdk.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace dynamixel;

namespace {

constexpr double PATIENCE = 60.0;  // [s]
constexpr int ROUNDS = 100;
constexpr uint16_t TORQUE = 64, LED = 65, REGISTERED = 69, P_GAIN = 84, PROFILE = 108, GOAL = 116, PRESENT = 132, TEMPERATURE_LIMIT = 31;

PortHandler* port;
PacketHandler* two;

// Asks until the result is COMM_SUCCESS; returns how often it asked.
int patiently(const std::string& what, const std::function<int()>& ask) {
    const auto start = std::chrono::steady_clock::now();
    for (int asked = 1;; ++asked) {
        const int result = ask();
        if (result == COMM_SUCCESS) return asked;
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > PATIENCE) {
            std::fprintf(stderr, "%s: no success within %g s, last result %d\n", what.c_str(), PATIENCE, result);
            std::exit(1);
        }
        // A reply that comes too late would be taken for the next answer.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        port->clearPort();
    }
}

std::vector<uint8_t> bytes(uint32_t value) {
    return {uint8_t(value), uint8_t(value >> 8), uint8_t(value >> 16), uint8_t(value >> 24)};
}

uint32_t read4(uint8_t id, uint16_t address) {
    uint32_t value = 0;
    patiently("read", [&] { return two->read4ByteTxRx(port, id, address, &value); });
    return value;
}

// A group is asked ROUNDS times: what the first answer held, and how many of the rounds were answered at once.
template <class Group>
void rounds(const char* name, Group& group, const std::vector<std::pair<uint8_t, std::pair<uint16_t, uint16_t>>>& of) {
    patiently(name, [&] { return group.txRxPacket(); });
    std::printf("%s", name);
    for (const auto& [id, place] : of) std::printf(" %u", group.getData(id, place.first, place.second));
    int answered = 0;
    for (int k = 0; k < ROUNDS; ++k) {
        const bool success = group.txRxPacket() == COMM_SUCCESS;
        bool whole = success;
        for (const auto& [id, place] : of) whole = whole && group.isAvailable(id, place.first, place.second);
        answered += whole;
        if (!whole) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            port->clearPort();
        }
    }
    std::printf("\n%s_rounds %d %d\n", name, answered, ROUNDS);
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "usage: client PORT BAUD\n");
        return 2;
    }
    port = PortHandler::getPortHandler(words[1]);
    two = PacketHandler::getPacketHandler(2.0);
    if (!port->openPort() || !port->setBaudRate(std::atoi(words[2]))) {
        std::fprintf(stderr, "%s cannot be opened at %s baud\n", words[1], words[2]);
        return 1;
    }
    uint8_t error = 0;
    for (uint8_t id : {1, 2, 5}) {
        uint16_t model = 0;
        patiently("ping", [&] { return two->ping(port, id, &model, &error); });
        std::printf("ping_%d %d %d\n", id, model, error);
    }

    std::vector<uint8_t> found;
    patiently("broadcast ping", [&] {
        found.clear();
        const int result = two->broadcastPing(port, found);
        return result == COMM_SUCCESS && found.size() < 3 ? COMM_RX_TIMEOUT : result;
    });
    std::printf("broadcast_ping");
    for (uint8_t id : found) std::printf(" %d", id);
    std::printf("\n");

    patiently("write", [&] { return two->write2ByteTxRx(port, 1, P_GAIN, 555, &error); });
    uint16_t gain = 0;
    patiently("read", [&] { return two->read2ByteTxRx(port, 1, P_GAIN, &gain, &error); });
    std::printf("gain %d %d\n", gain, error);
    patiently("write", [&] { return two->write2ByteTxRx(port, 1, P_GAIN, 20000, &error); });
    std::printf("refused %d\n", error);

    auto registered = bytes(900);
    for (uint8_t id : {1, 2})
        patiently("registered write", [&] { return two->regWriteTxRx(port, id, GOAL, 4, registered.data(), &error); });
    uint8_t waiting = 0;
    patiently("read", [&] { return two->read1ByteTxRx(port, 1, REGISTERED, &waiting); });
    two->action(port, BROADCAST_ID);
    const uint32_t first = read4(1, GOAL), second = read4(2, GOAL);
    std::printf("action %d %u %u\n", waiting, first, second);

    {
        GroupSyncWrite write(port, two, PROFILE, 4);
        auto a = bytes(4464), b = bytes(123), c = bytes(32000);
        write.addParam(1, a.data());
        write.addParam(5, b.data());
        write.addParam(2, c.data());
        patiently("sync write", [&] { return write.txPacket(); });
        GroupSyncRead read(port, two, PROFILE, 4);
        GroupFastSyncRead fast(port, two, PROFILE, 4);
        for (uint8_t id : {1, 5, 2}) {
            read.addParam(id);
            fast.addParam(id);
        }
        const std::vector<std::pair<uint8_t, std::pair<uint16_t, uint16_t>>> of{
            {1, {PROFILE, 4}}, {5, {PROFILE, 4}}, {2, {PROFILE, 4}}};
        rounds("sync_read", read, of);
        rounds("fast_sync_read", fast, of);
    }
    {
        GroupBulkWrite write(port, two);
        auto goal = bytes(777);
        uint8_t on = 1;
        write.addParam(1, GOAL, 4, goal.data());
        write.addParam(5, LED, 1, &on);
        patiently("bulk write", [&] { return write.txPacket(); });
        GroupBulkRead read(port, two);
        GroupFastBulkRead fast(port, two);
        read.addParam(1, GOAL, 4);
        read.addParam(5, LED, 1);
        fast.addParam(1, GOAL, 4);
        fast.addParam(5, LED, 1);
        const std::vector<std::pair<uint8_t, std::pair<uint16_t, uint16_t>>> of{{1, {GOAL, 4}}, {5, {LED, 1}}};
        rounds("bulk_read", read, of);
        rounds("fast_bulk_read", fast, of);
    }

    patiently("clear", [&] { return two->clearMultiTurn(port, 1, &error); });
    std::printf("clear_multi_turn %d %u\n", error, read4(1, PRESENT));
    patiently("write", [&] { return two->write1ByteTxRx(port, 5, TEMPERATURE_LIMIT, 60, &error); });
    patiently("factory reset", [&] { return two->factoryReset(port, 5, 0x02, &error); });
    uint16_t model = 0;
    patiently("ping", [&] { return two->ping(port, 5, &model); });
    uint8_t limit = 0;
    patiently("read", [&] { return two->read1ByteTxRx(port, 5, TEMPERATURE_LIMIT, &limit); });
    std::printf("factory_reset %d %d\n", error, limit);
    patiently("reboot", [&] { return two->reboot(port, 1, &error); });
    patiently("ping", [&] { return two->ping(port, 1, &model); });
    patiently("read", [&] { return two->read2ByteTxRx(port, 1, P_GAIN, &gain); });
    std::printf("reboot %d %d\n", error, gain);
    port->closePort();
    return 0;
}
