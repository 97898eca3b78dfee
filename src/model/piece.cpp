// Plans and runs the layers of one piece, with or without recomputation.
#include "trireme/model/piece.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "embedding.hpp"
#include "head.hpp"
#include "transformer_layer.hpp"

namespace trireme::model {
namespace {

using backend::GradWrite;
using memory::Category;
using memory::Item;

// Layers [first, first + count) of the piece that are recomputed together from the input of the first; a
// group of one layer that is not recomputed is the usual case.
struct Group {
    std::size_t first = 0;
    std::size_t count = 1;
    bool recomputed = false;
};

std::vector<Group> make_groups(const Recompute& recompute, std::size_t layers) {
    std::vector<Group> groups;
    const auto size = static_cast<std::size_t>(recompute.layers);
    if (recompute.mode == Recompute::Mode::uniform) {
        for (std::size_t first = 0; first < layers; first += size)
            groups.push_back({first, std::min(size, layers - first), true});
        return groups;
    }
    for (std::size_t first = 0; first < layers; ++first)
        groups.push_back({first, 1, recompute.mode == Recompute::Mode::block && first < size});
    return groups;
}

// Everything kept for one micro-batch in flight.
template <class T>
struct Slot {
    std::vector<LayerActivations<T>> layers;
    std::vector<T> inputs; // of each layer but the first, [Ts, B, C]
    HeadActivations<T> head;
    T tokens;               // [T, B] i32
    T documents, positions; // [T, B] i32, where they are wanted
};

} // namespace

struct Piece::Impl {
    StageSetup stage;
    PieceSetup setup;
    Dimensions d;
    std::vector<TransformerLayer> layers;
    std::vector<Group> groups;
    std::optional<Embedding> embedding;
    std::optional<Head> head;
    Machinery machinery;
    StepContext step;
    Probe* probe = nullptr;

    std::vector<Slot<Item>> slot_items;
    std::vector<Item> input_items; // of the first layer: more than slots
    std::vector<std::vector<LayerGradients<Item>>>
        gradient_items; // [slot][layer]; one of each unless delayed
    std::vector<Slot<Tensor>> slots;
    std::vector<Tensor> first_inputs;
    std::vector<std::vector<LayerGradients<Tensor>>> gradients;

    Impl(const StageSetup& of_stage, const PieceSetup& of_piece, memory::Plan& plan)
        : stage(of_stage), setup(of_piece), d(dimensions(of_stage)) {
        for (std::int64_t number = setup.layers.begin; number < setup.layers.end; ++number)
            layers.emplace_back(stage, number);
        groups = make_groups(stage.recompute, layers.size());
        if (setup.has_embedding)
            embedding.emplace(stage);
        if (setup.has_head)
            head.emplace(stage);
        for (int number = 0; number < setup.in_flight; ++number)
            slot_items.push_back(plan_slot(plan, concat("chunk ", setup.chunk, " micro-batch ", number)));
        const int inputs = setup.has_embedding ? setup.in_flight : setup.inputs;
        for (int number = 0; number < inputs; ++number)
            input_items.push_back(plan_hidden(plan, concat("chunk ", setup.chunk, " input ", number)));
        if (setup.delayed_gradients == 0 && !layers.empty())
            gradient_items.push_back({layers.front().plan_gradients(plan, "")});
        for (int slot_number = 0; slot_number < setup.delayed_gradients; ++slot_number) {
            std::vector<LayerGradients<Item>>& of_layers = gradient_items.emplace_back();
            for (std::size_t i = 0; i < layers.size(); ++i)
                of_layers.push_back(layers[i].plan_gradients(
                    plan, concat("chunk ", setup.chunk, " delayed ", slot_number, " layer ", i)));
        }
        for (TransformerLayer& layer : layers)
            layer.plan_shared(plan);
        if (embedding)
            embedding->plan(plan);
        if (head)
            head->plan_shared(plan);
    }

    Item plan_hidden(memory::Plan& plan, const std::string& name) const {
        return plan.add(Category::activations, name, Shape{d.Ts, d.B, d.C}, stage.type);
    }

    Slot<Item> plan_slot(memory::Plan& plan, const std::string& name) const {
        using Kept = TransformerLayer::Kept;
        Slot<Item> slot;
        for (const Group& group : groups) {
            for (std::size_t i = 0; i < group.count; ++i) {
                const TransformerLayer& layer = layers[group.first + i];
                const std::string in_group = concat("layer ", i, " of a group");
                const std::string own =
                    concat(name, " layer ", setup.layers.begin + static_cast<std::int64_t>(group.first + i));
                slot.layers.push_back(group.recomputed
                                          ? layer.plan_activations(plan, in_group, Kept::until_recomputed)
                                          : layer.plan_activations(plan, own, Kept::for_backward));
                if (group.first + i == 0)
                    continue; // its inputs are planned apart
                slot.inputs.push_back(i == 0 ? plan_hidden(plan, own + " input")
                                             : plan.share(Category::activations,
                                                          "recomputed " + in_group + " input",
                                                          Shape{d.Ts, d.B, d.C}, stage.type));
            }
        }
        if (embedding)
            slot.tokens = plan.add(Category::activations, name + " tokens", Shape{d.T, d.B}, DType::i32);
        if (stage.documents.masks_attention)
            slot.documents =
                plan.add(Category::activations, name + " documents", Shape{d.T, d.B}, DType::i32);
        if (needs_positions())
            slot.positions =
                plan.add(Category::activations, name + " positions", Shape{d.T, d.B}, DType::i32);
        if (head)
            slot.head = head->plan_activations(plan, name);
        return slot;
    }

    bool needs_positions() const {
        return stage.documents.restarts_positions &&
               (stage.config.positions == catalogue::Positions::rotary ||
                (stage.config.positions == catalogue::Positions::learned && embedding));
    }
    bool needs_tokens() const {
        return embedding || head || layers_need_marks(stage.documents, stage.config.positions);
    }
    BatchMarks marks(const Slot<Tensor>& in, std::int64_t first_sample) const {
        return {first_sample, in.documents, in.positions};
    }

    void bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& on) {
        machinery = on;
        for (const Slot<Item>& items : slot_items) {
            Slot<Tensor> slot;
            for (const LayerActivations<Item>& layer : items.layers)
                slot.layers.push_back(model::bind(arena, layer));
            for (const Item item : items.inputs)
                slot.inputs.push_back(arena.tensor(item));
            slot.head = model::bind(arena, items.head);
            slot.tokens = arena.tensor(items.tokens);
            slot.documents = arena.tensor(items.documents);
            slot.positions = arena.tensor(items.positions);
            slots.push_back(std::move(slot));
        }
        for (const Item item : input_items)
            first_inputs.push_back(arena.tensor(item));
        for (const std::vector<LayerGradients<Item>>& of_layers : gradient_items) {
            gradients.emplace_back();
            for (const LayerGradients<Item>& items : of_layers)
                gradients.back().push_back(model::bind(arena, items));
        }
        for (TransformerLayer& layer : layers)
            layer.bind(arena, parameters, machinery);
        if (!layers.empty())
            layers.front().fill_shared();
        if (embedding)
            embedding->bind(arena, parameters, machinery);
        if (head)
            head->bind(arena, parameters, machinery);
    }

    Slot<Tensor>& slot(std::int64_t micro_batch) {
        return slots[static_cast<std::size_t>(micro_batch) % slots.size()];
    }
    Tensor first_input(std::int64_t micro_batch) const {
        return first_inputs[static_cast<std::size_t>(micro_batch) % first_inputs.size()];
    }
    Tensor layer_input(Slot<Tensor>& in, std::int64_t micro_batch, std::size_t layer) const {
        return layer == 0 ? first_input(micro_batch) : in.inputs[layer - 1];
    }

    std::int64_t layer_number(std::size_t i) const {
        return setup.layers.begin + static_cast<std::int64_t>(i);
    }
    Part layer_part(std::size_t i) const { return {Part::Kind::layer, layer_number(i)}; }
    void needs(const Part& part) const {
        step.hooks->parameters_needed(part);
        step.hooks->progress();
    }
    void added(const Part& part, const Accumulation& accumulation) const {
        if (accumulation.ends)
            step.hooks->gradient_complete(part);
        step.hooks->progress();
    }
    void look_at_output(std::int64_t layer, std::int64_t micro_batch, const Tensor& output) const {
        if (probe != nullptr)
            probe->output(layer, micro_batch, output);
    }
    void look_at_gradient(std::int64_t layer, std::int64_t micro_batch, const Tensor& gradient) const {
        if (probe != nullptr)
            probe->gradient(layer, micro_batch, gradient);
    }

    void forward(const MicroBatch& batch, Mode mode, Tensor output) {
        Slot<Tensor>& in = slot(batch.number);
        if (in.documents.defined())
            machinery.backend->copy_to_device(batch.documents, in.documents);
        if (in.positions.defined())
            machinery.backend->copy_to_device(batch.positions, in.positions);
        const BatchMarks now = marks(in, batch.first_sample);
        if (embedding) {
            needs({Part::Kind::embedding});
            machinery.backend->copy_to_device(batch.tokens, in.tokens);
            embedding->forward(in.tokens, now, mode, first_input(batch.number));
            look_at_output(Probe::kEmbedding, batch.number, first_input(batch.number));
        }
        const Tensor last = head ? in.head.input : output;
        for (std::size_t i = 0; i < layers.size(); ++i) {
            needs(layer_part(i));
            const Tensor out = i + 1 < layers.size() ? in.inputs[i] : last;
            layers[i].forward(layer_input(in, batch.number, i), in.layers[i], now, mode, LayerOutput::wanted,
                              out);
            look_at_output(layer_number(i), batch.number, out);
        }
        if (layers.empty())
            machinery.backend->compute().copy(first_input(batch.number), last);
        if (head) {
            needs({Part::Kind::head});
            if (mode != Mode::infer)
                machinery.backend->copy_to_device(batch.targets, in.head.targets);
            if (mode != Mode::infer && in.head.loss_mask.defined())
                machinery.backend->copy_to_device(batch.loss_mask, in.head.loss_mask);
            head->forward(in.head, batch.number, mode);
        }
    }

    // From the output of the last layer: the gradient of the loss, or what was received.
    void head_gradient(std::int64_t micro_batch, Slot<Tensor>& in, Tensor grad,
                       const Accumulation& accumulation) {
        if (!head)
            return;
        head->backward(in.head, micro_batch, accumulation.write, grad);
        added({Part::Kind::head}, accumulation);
    }
    void embedding_gradient(const BatchMarks& batch, const Slot<Tensor>& in, Tensor grad,
                            const Accumulation& accumulation) {
        if (!embedding)
            return;
        const bool tied_here = head && stage.config.output_layer == catalogue::OutputLayer::tied;
        embedding->weight_gradient(
            in.tokens, batch, {tied_here ? GradWrite::accumulate : accumulation.write, accumulation.write},
            grad);
        added({Part::Kind::embedding}, accumulation);
    }

    void backward(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                  const Accumulation& accumulation) {
        Slot<Tensor>& in = slot(micro_batch);
        const BatchMarks now = marks(in, first_sample);
        head_gradient(micro_batch, in, grad, accumulation);
        for (std::size_t g = groups.size(); g-- > 0;) {
            const Group& group = groups[g];
            if (group.recomputed)
                recompute(micro_batch, now, in, group);
            for (std::size_t i = group.first + group.count; i-- > group.first;) {
                const Tensor input = layer_input(in, micro_batch, i);
                layers[i].input_gradient(input, in.layers[i], accumulation.write, now, grad,
                                         gradients.front().front());
                look_at_gradient(layer_number(i), micro_batch, grad);
                added(layer_part(i), accumulation);
            }
        }
        embedding_gradient(now, in, grad, accumulation);
    }

    std::vector<LayerGradients<Tensor>>& delayed(std::int64_t micro_batch) {
        return gradients[static_cast<std::size_t>(micro_batch) % gradients.size()];
    }

    // The weight gradients of head and embedding are not delayed: their inputs are at hand now.
    void input_gradient(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                        const Accumulation& accumulation) {
        TRIREME_ASSERT(setup.delayed_gradients > 0 && stage.recompute.mode == Recompute::Mode::none,
                       "half a backward pass without the memory for it");
        Slot<Tensor>& in = slot(micro_batch);
        const BatchMarks now = marks(in, first_sample);
        head_gradient(micro_batch, in, grad, accumulation);
        for (std::size_t i = layers.size(); i-- > 0;) {
            layers[i].input_gradient(layer_input(in, micro_batch, i), in.layers[i], std::nullopt, now, grad,
                                     delayed(micro_batch)[i]);
            look_at_gradient(layer_number(i), micro_batch, grad);
        }
        embedding_gradient(now, in, grad, accumulation);
    }

    void weight_gradient(std::int64_t micro_batch, const Accumulation& accumulation) {
        Slot<Tensor>& in = slot(micro_batch);
        for (std::size_t i = layers.size(); i-- > 0;) {
            layers[i].weight_gradient(layer_input(in, micro_batch, i), in.layers[i], delayed(micro_batch)[i],
                                      accumulation.write);
            added(layer_part(i), accumulation);
        }
    }

    void recompute(std::int64_t micro_batch, const BatchMarks& batch, Slot<Tensor>& in, const Group& group) {
        const std::size_t last = group.first + group.count - 1;
        for (std::size_t i = group.first; i <= last; ++i)
            layers[i].forward(layer_input(in, micro_batch, i), in.layers[i], batch, Mode::train,
                              i < last ? LayerOutput::wanted : LayerOutput::discarded,
                              i < last ? in.inputs[i] : Tensor{});
    }
};

Piece::Piece(const StageSetup& stage, const PieceSetup& setup, memory::Plan& plan)
    : impl_(std::make_unique<Impl>(stage, setup, plan)) {}
Piece::~Piece() = default;
Piece::Piece(Piece&&) noexcept = default;

void Piece::bind(const memory::Arena& arena, const Parameters& parameters, const Machinery& machinery) {
    impl_->bind(arena, parameters, machinery);
}
const PieceSetup& Piece::setup() const {
    return impl_->setup;
}
bool Piece::needs_tokens() const {
    return impl_->needs_tokens();
}
void Piece::watch(Probe* probe) {
    impl_->probe = probe;
}
void Piece::begin(const StepContext& step) {
    impl_->step = step;
    if (impl_->head)
        impl_->head->begin(step.loss_gradient);
}
Tensor Piece::input(std::int64_t micro_batch) const {
    return impl_->first_input(micro_batch);
}
void Piece::forward(const MicroBatch& batch, Mode mode, Tensor output) {
    impl_->forward(batch, mode, output);
}
void Piece::backward(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                     Accumulation accumulation) {
    impl_->backward(micro_batch, first_sample, grad, accumulation);
}
void Piece::input_gradient(std::int64_t micro_batch, std::int64_t first_sample, Tensor grad,
                           Accumulation accumulation) {
    impl_->input_gradient(micro_batch, first_sample, grad, accumulation);
}
void Piece::weight_gradient(std::int64_t micro_batch, Accumulation accumulation) {
    impl_->weight_gradient(micro_batch, accumulation);
}
Tensor Piece::loss() const {
    return impl_->head->loss();
}
Tensor Piece::logits() const {
    return impl_->head->logits();
}

} // namespace trireme::model
